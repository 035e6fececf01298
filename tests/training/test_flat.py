"""One vector of parameters: the model stays the same, and so does its optimizer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from heedful.models.seq2seq import Seq2Seq, make_model
from heedful.training.flat import FlatParameters

VOCAB = 11


def small(tie: str = "all") -> Seq2Seq:
    torch.manual_seed(0)
    return make_model(VOCAB, VOCAB, 16, layers=2, d_ff=32, heads=4, dropout=0.0, tie=tie)


def problem(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    source, target, answers = (torch.randint(0, VOCAB, (3, 5), generator=generator) for _ in range(3))
    return source, target, answers


def loss_of(model: Seq2Seq, seed: int) -> Tensor:
    source, target, answers = problem(seed)
    return torch.nn.functional.nll_loss(model(source, target).flatten(0, 1), answers.flatten())


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_flattening_never_changes_the_output(tie: str) -> None:
    model = small(tie)
    source, target, _ = problem(1)
    before = model(source, target)
    FlatParameters(model)
    assert torch.equal(model(source, target), before)


def test_tied_weights_stand_once_and_stay_tied() -> None:
    sizes = {}
    for tie in ("all", "target", "none"):
        model = small(tie)
        flat = FlatParameters(model)
        sizes[tie] = flat.values.numel()
        assert flat.values.numel() == sum(p.numel() for p in model.parameters()) == flat.gradient.numel()
        assert list(flat.layout) == [name for name, _ in model.named_parameters()]
        assert (model.source_embedding.weight is model.output_weight) == (tie == "all")
        assert (model.target_embedding.weight is model.output_weight) == (tie != "none")
    assert sizes["target"] - sizes["all"] == sizes["none"] - sizes["target"] == VOCAB * 16


def test_the_vector_holds_every_parameter_in_the_order_of_its_layout() -> None:
    model = small()
    flat = FlatParameters(model)
    start = 0
    for name, parameter in model.named_parameters():
        assert flat.layout[name] == list(parameter.shape)
        assert torch.equal(flat.values[start : start + parameter.numel()].view_as(parameter), parameter)
        start += parameter.numel()
    assert start == flat.values.numel()


def test_gradients_land_in_the_vector_and_accumulate_there() -> None:
    model = small()
    plain = copy.deepcopy(model)
    flat = FlatParameters(model, extra=4)
    assert flat.reduced.numel() == flat.gradient.numel() + 4
    for seed in (1, 2):
        loss_of(model, seed).backward()
        loss_of(plain, seed).backward()
    gradients = []
    for parameter in plain.parameters():
        assert parameter.grad is not None
        gradients.append(parameter.grad.flatten())
    assert torch.equal(flat.gradient, torch.cat(gradients))
    assert flat.values.grad is not None
    assert flat.values.grad.data_ptr() == flat.gradient.data_ptr() == flat.reduced.data_ptr()
    assert flat.reduced[-4:].tolist() == [0.0] * 4
    flat.reduced.zero_()
    assert all(p.grad is not None and not bool(p.grad.any()) for p in model.parameters())


@pytest.mark.parametrize("fused", [False, True])
def test_adam_on_the_vector_equals_adam_on_separate_parameters(fused: bool) -> None:
    model = small()
    plain = copy.deepcopy(model)
    flat = FlatParameters(model)
    settings = {"lr": 0.003, "betas": (0.9, 0.98), "eps": 1e-9}
    ours = torch.optim.Adam([flat.values], fused=fused, **settings)  # type: ignore[arg-type]
    theirs = torch.optim.Adam(plain.parameters(), fused=fused, **settings)  # type: ignore[arg-type]
    start = flat.values.detach().clone()
    for seed in range(10):
        flat.reduced.zero_()
        theirs.zero_grad()
        loss_of(model, seed).backward()
        loss_of(plain, seed).backward()
        ours.step()
        theirs.step()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7, rtol=0)
    assert (flat.values - start).abs().max().item() > 0.01


def test_loading_a_vector_sets_the_model() -> None:
    model, other = small(), small()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter))
    flat, wanted = FlatParameters(model), FlatParameters(other)
    flat.load(wanted.values.detach().clone())
    source, target, _ = problem(1)
    assert torch.equal(model(source, target), other(source, target))


def test_decay_is_that_of_adamw_on_matrices_and_leaves_vectors_alone() -> None:
    model, other = small(), small()
    flat = FlatParameters(model)
    adam = torch.optim.Adam([flat.values], lr=0.01)
    matrices = [parameter for parameter in other.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in other.parameters() if parameter.dim() == 1]
    adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}], lr=0.01)
    for seed in range(3):
        flat.reduced.zero_()
        loss_of(model, seed).backward()
        flat.decay(0.3 * 0.01)
        adam.step()
        adamw.zero_grad()
        loss_of(other, seed).backward()
        adamw.step()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)
