"""The linear map of `nn/fast/linear.py`: equal numbers by either library, and PyTorch's own where oneDNN must not be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.fast import linear as fast
from heedful.nn.fast.decoder_layer import apply, apply_and_activate, apply_and_add, map_of
from heedful.nn.fast.linear import CHOICE, Linear, add_weight_gradient, fits_onednn, linear_map, onednn_is_faster

ROWS, WIDTH_IN, WIDTH_OUT = 96, 128, 160  # above LEAST


@pytest.fixture(params=["mkl", "onednn"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The library that computes the products of a test."""
    monkeypatch.setenv(CHOICE, request.param)
    onednn_is_faster.cache_clear()
    yield request.param
    onednn_is_faster.cache_clear()


def problem(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, weight and bias that want gradients."""
    rng = torch.Generator().manual_seed(1)
    shapes = (2, ROWS // 2, WIDTH_IN), (WIDTH_OUT, WIDTH_IN), (WIDTH_OUT,)
    x, weight, bias = (torch.randn(shape, generator=rng, dtype=dtype).requires_grad_() for shape in shapes)
    return x, weight, bias


@pytest.mark.parametrize("with_bias", [True, False])
def test_numbers_and_gradients_are_those_of_the_plain_map(library: str, with_bias: bool) -> None:
    x, weight, bias = problem()
    inputs = [x, weight, bias] if with_bias else [x, weight]
    exact_inputs = [one.detach().double().requires_grad_() for one in inputs]
    found, exact = linear_map(*inputs), F.linear(*exact_inputs)
    assert fits_onednn(x, weight) == (library == "onednn")
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)
    wanted = torch.randn_like(found)
    gradients = torch.autograd.grad(found, inputs, wanted)
    for one, other in zip(gradients, torch.autograd.grad(exact, exact_inputs, wanted.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-4)
    with torch.no_grad():
        assert torch.equal(linear_map(*inputs), found)


@pytest.mark.parametrize("rows", [3, ROWS])
def test_a_map_of_the_fast_decoder_is_computed_together_with_what_follows_it(library: str, rows: int) -> None:
    x, weight, bias = (one.detach() for one in problem())
    x, total = x.flatten(0, 1)[:rows], torch.randn(rows, WIDTH_OUT)
    untouched = total.clone()
    mapped = map_of(weight, bias)
    assert (rows >= mapped.least) == (library == "onednn" and rows == ROWS)
    exact = F.linear(x.double(), weight.double(), bias.double())
    torch.testing.assert_close(apply(mapped, x).double(), exact, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(apply_and_activate(mapped, x, "relu").double(), exact.relu(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(apply_and_add(mapped, x, total).double(), exact + total.double(), rtol=1e-5, atol=1e-4)
    assert torch.equal(total, untouched)


def test_a_map_follows_its_weight(library: str) -> None:
    x, weight, bias = (one.detach() for one in problem())
    x = x.flatten(0, 1)
    for rows in (WIDTH_OUT, WIDTH_OUT - 30, WIDTH_OUT + 10):
        own, given = F.pad(weight[:rows], (0, 0, 0, max(0, rows - WIDTH_OUT))), F.pad(bias, (0, 10))[:rows]
        torch.testing.assert_close(apply(map_of(weight, given, rows), x), F.linear(x, own, given), rtol=1e-5, atol=1e-4)
    weight.mul_(2.0)
    torch.testing.assert_close(apply(map_of(weight, bias), x), F.linear(x, weight, bias), rtol=1e-5, atol=1e-4)
    flat = torch.randn(2 * weight.numel())  # as a training keeps all weights, of which a parameter does not notice changes
    part = nn.Parameter(torch.empty(0))
    part.data = flat[: weight.numel()].view_as(weight)
    assert apply(map_of(part, bias), x).shape
    flat.mul_(2.0)
    torch.testing.assert_close(apply(map_of(part, bias), x), F.linear(x, part.detach(), bias), rtol=1e-5, atol=1e-4)


def test_only_wanted_gradients_are_computed(library: str) -> None:
    x, weight, bias = problem()
    frozen = weight.detach()
    linear_map(x, frozen, bias).sum().backward()
    assert x.grad is not None
    assert bias.grad is not None
    assert not linear_map(x.detach(), frozen, bias.detach()).requires_grad


def test_weight_gradients_add_up(library: str) -> None:
    x, _, _ = problem()
    rows, grad = x.detach().flatten(0, 1), torch.randn(ROWS, WIDTH_OUT)
    total = torch.ones(WIDTH_IN, WIDTH_OUT)
    add_weight_gradient(total, rows, grad)
    torch.testing.assert_close(total, 1.0 + rows.T @ grad, rtol=1e-5, atol=1e-4)


def test_other_precisions_and_small_products_are_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "onednn_is_faster", lambda: True)
    x, weight, bias = problem()
    assert fits_onednn(x, weight)
    assert not fits_onednn(x[:, :1], weight)
    assert not fits_onednn(x.double(), weight.double())
    assert not fits_onednn(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear_map(x, weight, bias).dtype == torch.bfloat16


def test_a_recorded_layer_has_only_pytorchs_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "onednn_is_faster", lambda: True)
    layer, x = Linear(WIDTH_IN, WIDTH_OUT).eval(), problem()[0].detach()
    exported = torch.export.export(layer, (x,))
    assert "linear" in str(exported.graph)
    assert "mkldnn" not in str(exported.graph)
    torch.testing.assert_close(exported.module()(x), layer(x), rtol=1e-5, atol=1e-5)


def test_a_worker_process_chooses_as_the_first_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    onednn_is_faster.cache_clear()
    chosen = onednn_is_faster()
    monkeypatch.setenv(CHOICE, "onednn" if chosen else "mkl")  # as a child of this process finds it
    onednn_is_faster.cache_clear()
    assert onednn_is_faster() == chosen
    onednn_is_faster.cache_clear()


def test_it_is_a_linear_layer_with_the_same_parameters() -> None:
    layer = Linear(3, 2)
    assert isinstance(layer, nn.Linear)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
