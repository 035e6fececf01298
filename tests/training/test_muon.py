"""Muon compared with PyTorch's own, and its special cases."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn.functional import nll_loss

from heedful.models.seq2seq import Seq2Seq, make_model
from heedful.runtime.processes import Processes
from heedful.training.flat_weights import FlatWeights
from heedful.training.muon import STEP, hidden_matrices, orthogonal
from heedful.training.weights import AdamSettings

ADAM: AdamSettings = {"betas": (0.9, 0.98), "eps": 1e-5}


def small(**settings: Any) -> Seq2Seq:
    torch.manual_seed(0)
    return make_model(11, 11, 16, layers=2, d_ff=32, heads=4, dropout=0.0, tie="all", **settings)


@pytest.mark.parametrize(("rows", "columns"), [(24, 24), (16, 40), (40, 16)])
def test_a_step_has_the_directions_of_its_gradient_and_none_is_small(rows: int, columns: int) -> None:
    torch.manual_seed(1)
    stack = torch.randn(3, rows, columns, dtype=torch.float64) * torch.logspace(0, -1, columns, dtype=torch.float64)
    left, _, right = torch.linalg.svd(stack, full_matrices=False)
    turned = left.mT @ orthogonal(stack) @ right.mT  # diagonal, if the directions are the same
    values = turned.diagonal(dim1=1, dim2=2)
    assert ((values > 0.3) & (values < 1.3)).all()
    torch.testing.assert_close(turned, torch.diag_embed(values), rtol=0, atol=1e-6)


def test_all_matrices_of_layers_are_its_own_and_the_embeddings_are_not() -> None:
    for d_k in (4, 2):
        model = small(d_k=d_k)
        hidden = hidden_matrices(model)
        inside = {name: p for name, p in model.named_parameters() if p.dim() == 2 and ".layers." in name}
        assert hidden.keys() == inside.keys()
        assert len(hidden) == 2 * (4 + 6)
        for name, (number, rows, columns) in hidden.items():
            assert [number * rows, columns] == list(inside[name].shape)
            assert number == (3 if "attention.project_in" in name and d_k == 4 else 1)


def test_steps_equal_those_of_pytorch() -> None:
    model = small()
    plain = copy.deepcopy(model)
    flat = FlatWeights(model, Processes(), ADAM, muon=True)
    assert torch.equal(model(*[torch.arange(10).view(2, 5)] * 2), plain(*[torch.arange(10).view(2, 5)] * 2))
    hidden = hidden_matrices(plain)
    parameters = dict(plain.named_parameters())
    matrices, owners = [], []
    for name, (number, _, _) in hidden.items():
        for part in parameters[name].detach().chunk(number):
            matrices.append(torch.nn.Parameter(part))  # shares its memory with the model
        owners.append((parameters[name], number))
    # Its step is as large as Adam's, 0.2; ours is STEP.
    muon = torch.optim.Muon(matrices, lr=STEP / 0.2, momentum=0.95, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.Adam([p for name, p in parameters.items() if name not in hidden], **ADAM)
    for step in range(4):
        rate, tokens = 0.002 * (step + 1), torch.randint(0, 11, (3, 3, 5), generator=torch.Generator().manual_seed(step))
        for net in (model, plain):
            if net is model:
                flat.clear()
            else:
                plain.zero_grad()
            nll_loss(net(tokens[0], tokens[1]).flatten(0, 1), tokens[2].flatten()).backward()
        flat.reduce(torch.zeros(4))
        flat.update(rate, 1.0, 0.0)
        parts = [part for owner, number in owners if owner.grad is not None for part in owner.grad.chunk(number)]
        for matrix, part in zip(matrices, parts, strict=True):
            matrix.grad = part
        for optimizer, lr in ((muon, rate * STEP / 0.2), (adam, rate)):
            optimizer.param_groups[0]["lr"] = lr
            optimizer.step()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        # PyTorch's computes in bf16.
        torch.testing.assert_close(ours, theirs, rtol=0, atol=4e-3 if name in hidden else 1e-3)
    some = "encoder.layers.0.feed_forward.project_in.weight"
    moved = model.get_parameter(some) - small().get_parameter(some)
    assert moved.abs().mean() > 3e-3  # so that closeness is meaningful


def test_what_it_holds_comes_back_from_a_checkpoint() -> None:
    tokens = torch.arange(10).view(2, 5)
    courses = []
    for broken in (False, True):
        model = small()
        flat = FlatWeights(model, Processes(), ADAM, muon=True)
        for step in range(4):
            if broken and step == 2:
                kept = {name: vector.clone() for name, vector in flat.vectors().items()}
                model = small()
                flat = FlatWeights(model, Processes(), ADAM, muon=True)
                flat.load(kept, step)
            flat.clear()
            model(tokens, tokens).logsumexp(-1).sum().mul(step + 1).add(model(tokens, tokens)[..., 3].sum()).backward()
            flat.reduce(torch.zeros(4))
            flat.update(0.01, 1.0, 0.001)
        courses.append(flat.state["weights"].clone())
    assert torch.equal(*courses)
