"""One vector of parameters: the model stays the same, and so does its optimizer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.models.seq2seq import Seq2Seq, make_model
from heedful.runtime.processes import Processes
from heedful.training.flat_weights import FlatWeights
from heedful.training.weights import AdamSettings

VOCAB = 11
ADAM: AdamSettings = {"betas": (0.9, 0.98), "eps": 1e-5}  # large enough that gradients of mere rounding move nothing


def flat_weights(model: Seq2Seq, ema: float = 0.0) -> FlatWeights:
    return FlatWeights(model, Processes(), ADAM, ema)


def reduce(flat: FlatWeights) -> None:
    """What the trainer does between backward and update."""
    flat.reduce(torch.zeros(4))


def small(tie: Any = "all") -> Seq2Seq:
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
def test_flattening_never_changes_the_output(tie: Any) -> None:
    model = small(tie)
    source, target, _ = problem(1)
    before = model(source, target)
    flat_weights(model)
    assert torch.equal(model(source, target), before)


def test_tied_weights_stand_once_and_stay_tied() -> None:
    sizes = {}
    for tie in ("all", "target", "none"):
        model = small(tie)
        flat = flat_weights(model)
        sizes[tie] = flat.state["weights"].numel()
        assert flat.state["weights"].numel() == sum(p.numel() for p in model.parameters()) == flat.gradient.numel()
        assert list(flat.layout) == [name for name, _ in model.named_parameters()]
        assert (model.source_embedding.weight is model.output_weight) == (tie == "all")
        assert (model.target_embedding.weight is model.output_weight) == (tie != "none")
    assert sizes["target"] - sizes["all"] == sizes["none"] - sizes["target"] == VOCAB * 16


def test_the_vector_holds_every_parameter_in_the_order_of_its_layout() -> None:
    model = small()
    flat = flat_weights(model)
    start = 0
    for name, parameter in model.named_parameters():
        assert flat.layout[name] == list(parameter.shape)
        assert torch.equal(flat.state["weights"][start : start + parameter.numel()].view_as(parameter), parameter)
        start += parameter.numel()
    assert start == flat.state["weights"].numel()


def test_gradients_land_in_the_vector_and_accumulate_there() -> None:
    model = small()
    plain = copy.deepcopy(model)
    flat = flat_weights(model)
    for seed in (1, 2):
        loss_of(model, seed).backward()
        loss_of(plain, seed).backward()
    gradients = []
    for parameter in plain.parameters():
        assert parameter.grad is not None
        gradients.append(parameter.grad.flatten())
    assert torch.equal(flat.gradient, torch.cat(gradients))
    assert flat.reduce(torch.tensor([1.0, 2.0, 3.0, 0.0])) == [1.0, 2.0, 3.0, 0.0]
    assert flat.norm == pytest.approx(float(torch.cat(gradients).norm()))
    flat.clear()
    assert all(p.grad is not None and not bool(p.grad.any()) for p in model.parameters())


def test_an_update_equals_adam_on_separate_parameters() -> None:
    model = small()
    plain = copy.deepcopy(model)
    flat = flat_weights(model)
    theirs = torch.optim.Adam(plain.parameters(), lr=0.003, betas=(0.9, 0.98), eps=1e-5)
    start = flat.state["weights"].clone()
    for seed in range(10):
        flat.clear()
        theirs.zero_grad()
        (8 * loss_of(model, seed)).backward()
        loss_of(plain, seed).backward()
        reduce(flat)
        flat.update(0.003, 1 / 8, 0.0)
        theirs.step()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=2e-5, rtol=0)
    assert (flat.state["weights"] - start).abs().max().item() > 0.01


def test_the_running_mean_is_evaluated_and_the_weights_come_back() -> None:
    model = small()
    flat = flat_weights(model, ema=0.5)
    mean = flat.state["weights"].clone()
    for seed in range(5):
        flat.clear()
        loss_of(model, seed).backward()
        reduce(flat)
        flat.update(0.01, 1.0, 0.0)
        share = 1 - min(0.5, (seed + 1) / (seed + 10))
        mean.lerp_(flat.state["weights"], share)
    weights = flat.state["weights"].clone()
    with flat.averaged():
        assert torch.allclose(torch.cat([p.detach().flatten() for p in model.parameters()]), mean)
        assert not torch.allclose(flat.state["weights"], weights)
    assert torch.equal(flat.state["weights"], weights)


def test_a_checkpoint_brings_everything_back() -> None:
    first, second = small(), small()
    one, other = flat_weights(first, ema=0.9), flat_weights(second, ema=0.9)

    def train(flat: FlatWeights, model: Seq2Seq, seeds: range) -> None:
        for seed in seeds:
            flat.clear()
            loss_of(model, seed).backward()
            reduce(flat)
            flat.update(0.01, 1.0, 0.001)

    train(one, first, range(3))
    other.load({name: vector.clone() for name, vector in one.vectors().items()}, one.updates)
    train(one, first, range(3, 6))
    train(other, second, range(3, 6))
    for name, vector in one.vectors().items():
        assert torch.equal(vector, other.vectors()[name]), name


def test_loading_a_vector_sets_the_model() -> None:
    model, other = small(), small()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter))
    flat, wanted = flat_weights(model), flat_weights(other)
    flat.load({"weights": wanted.state["weights"].clone()}, 0)
    source, target, _ = problem(1)
    assert torch.equal(model(source, target), other(source, target))


def test_decay_is_that_of_adamw_on_matrices_and_leaves_vectors_alone() -> None:
    model, other = small(), small()
    flat = flat_weights(model)
    matrices = [parameter for parameter in other.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in other.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.3}, {"params": vectors, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.98), eps=1e-5)
    for seed in range(3):
        flat.clear()
        loss_of(model, seed).backward()
        reduce(flat)
        flat.update(0.01, 1.0, 0.3 * 0.01)
        adamw.zero_grad()
        loss_of(other, seed).backward()
        adamw.step()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)
