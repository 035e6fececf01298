"""Dropout: the fast version drops as often as PyTorch's, independently, and with the same mean and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heedful.nn.dropout import Dropout
from heedful.nn.fast.dropout import add_dropout, dropout, dropout_factors

shapes = st.lists(st.integers(0, 9), min_size=1, max_size=3)
dtypes = st.sampled_from([torch.float32, torch.float64])


@settings(max_examples=60, deadline=None)
@given(shapes, dtypes, st.sampled_from([1e-5, 0.001, 0.1, 0.25, 0.5, 0.9, 0.999]), st.integers(0, 9))
def test_fast_dropout_multiplies_by_zero_or_by_one_constant_like_pytorchs(
    shape: list[int], dtype: torch.dtype, p: float, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=dtype)
    torch.manual_seed(seed)
    factors = dropout_factors(x, p)
    torch.manual_seed(seed)
    assert torch.equal(dropout(x, p), x * factors)
    torch.manual_seed(seed)
    assert torch.allclose(add_dropout(x + 1, x, p), x + 1 + x * factors, atol=1e-5 / (1 - p))
    plain = nn.functional.dropout(torch.ones_like(x), p)
    assert (factors.shape, factors.dtype) == (plain.shape, plain.dtype)
    assert len(factors[factors != 0].unique()) <= 1
    for factor in factors[factors != 0].unique().tolist():
        assert 1 - 1 / factor == pytest.approx(p, rel=0.05, abs=1e-6)  # the scale is 1/(1 − p) for the rounded p


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5])
def test_fast_and_plain_dropout_agree_on_average(p: float) -> None:
    torch.manual_seed(0)
    count = 1_000_000
    ours, theirs = dropout(torch.ones(count), p), nn.functional.dropout(torch.ones(count), p)
    noise = 5 * math.sqrt(2 * p * (1 - p) / count)
    assert abs(float((ours == 0).double().mean() - (theirs == 0).double().mean())) <= noise + min(1 / 512, p / 20)
    assert abs(float(ours.double().mean() - theirs.double().mean())) <= noise / (1 - p) * 1.1


@pytest.mark.parametrize("p", [0.1, 0.2, 0.3, 0.5, 0.9])
def test_dropout_zeroes_the_right_share_and_preserves_the_mean(p: float) -> None:
    torch.manual_seed(5)
    count = 1_000_000
    out = Dropout(p)(torch.ones(count))
    share = float((out == 0).float().mean())
    noise = 5 * math.sqrt(p * (1 - p) / count)
    assert abs(share - p) <= 1 / 256 + noise
    assert abs(float(out.mean()) - 1.0) <= noise / (1 - p) * 1.1  # the scale follows the rounded p, so that the mean is exact
    kept = out[out != 0]
    assert float(kept.min()) == float(kept.max())


def test_dropout_zeroes_neighbours_independently() -> None:
    torch.manual_seed(5)
    zero = (Dropout(0.25)(torch.ones(800_000)) == 0).double().view(-1, 8)
    together = torch.corrcoef(zero.T) - torch.eye(8)  # the eight values that one draw decides
    assert float(together.abs().max()) < 0.02


def test_dropout_takes_any_shape_and_passes_the_gradient_of_what_it_keeps() -> None:
    torch.manual_seed(5)
    x = torch.randn(3, 5, 7).transpose(0, 2).requires_grad_()  # 105 values, not contiguous
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert x.grad is not None
    assert out.shape == x.shape
    assert torch.equal(out == 0, x.grad == 0)
    assert torch.allclose(out, x * x.grad)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_dropout_changes_nothing_when_evaluating(p: float) -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(p).eval()(x), x)


def test_dropout_of_zero_changes_nothing_when_training() -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(0.0)(x), x)


def test_the_same_seed_gives_the_same_dropout() -> None:
    x, dropout = torch.ones(4, 250), Dropout(0.3)
    torch.manual_seed(7)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(7)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)
