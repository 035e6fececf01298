"""The chunked loss against the plain one, and both against PyTorch's cross-entropy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from heedful.nn import loss as plain_version
from heedful.nn.fast import loss as fast_version
from heedful.nn.fast.loss import CHUNK, label_smoothed_loss

SIZES = [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 37]
D, V = 12, 29


def problem(count: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, weight, bias (all to be differentiated) and targets."""
    torch.manual_seed(count)
    states, weight, bias = torch.randn(count, D, dtype=dtype), torch.randn(V, D, dtype=dtype), torch.randn(V, dtype=dtype)
    return states.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), torch.randint(0, V, (count,))


@settings(max_examples=80, deadline=None)
@given(
    half=st.sampled_from([0, 1, 5, CHUNK // 2 - 1, CHUNK // 2, CHUNK // 2 + 1, CHUNK + 3]),
    width=st.integers(1, 20),
    vocabulary=st.integers(1, 40),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    smoothing=st.sampled_from([0.0, 0.1, 0.4]),
    r_drop=st.sampled_from([0.0, 1.0, 5.0]),
    biased=st.booleans(),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_the_chunked_loss_equals_the_plain_one(
    half: int, width: int, vocabulary: int, dtype: torch.dtype, smoothing: float, r_drop: float, biased: bool, scale: float
) -> None:
    torch.manual_seed(half)
    states = (scale * torch.randn(2 * half, width, dtype=dtype)).requires_grad_()
    weight = torch.randn(vocabulary, width, dtype=dtype).requires_grad_()
    bias = torch.randn(vocabulary, dtype=dtype).requires_grad_() if biased else None
    targets = torch.randint(0, vocabulary, (half,)).repeat(2)
    inputs = [states, weight] if bias is None else [states, weight, bias]
    rounding = 200 * torch.finfo(dtype).eps
    results = []
    for version in (plain_version, fast_version):
        loss, nll = version.label_smoothed_loss(states, weight, bias, targets, smoothing, r_drop)
        assert not nll.requires_grad
        results.append([loss.detach(), nll, *torch.autograd.grad(3 * loss, inputs)])
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype == dtype
        # Terms of every position may cancel, so the rounding error grows with their number and not only with the result.
        size = float(one.abs().max()) + len(states) * max(1.0, scale) if one.numel() else 0.0
        assert torch.allclose(one, other, rtol=rounding, atol=rounding * size)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_plain_loss_equals_pytorchs_cross_entropy(smoothing: float) -> None:
    states, weight, bias, targets = problem(40)
    loss, nll = plain_version.label_smoothed_loss(states, weight, bias, targets, smoothing)
    logits = F.linear(states, weight, bias)
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert nll.item() == pytest.approx(F.cross_entropy(logits, targets, reduction="sum").item(), rel=1e-12)


def test_the_r_drop_penalty_is_the_mean_of_both_kl_divergences() -> None:
    log_p, log_q = torch.randn(2, 7, V, dtype=torch.float64).log_softmax(-1)
    both = F.kl_div(log_q, log_p, reduction="sum", log_target=True) + F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    assert plain_version.r_drop_penalty(log_p, log_q).item() == pytest.approx(both.item() / 2, rel=1e-12)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_equal_pytorchs_cross_entropy(count: int, smoothing: float) -> None:
    states, weight, bias, targets = problem(count)
    total, _ = label_smoothed_loss(states, weight, bias, targets, smoothing)
    expected = F.cross_entropy(F.linear(states, weight, bias), targets, reduction="sum", label_smoothing=smoothing)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    # Seven times the loss, so that the incoming gradient is not 1.
    ours = torch.autograd.grad(7 * total, [states, weight, bias])
    theirs = torch.autograd.grad(7 * expected, [states, weight, bias])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_single_precision_equals_pytorchs_too(smoothing: float) -> None:
    states, weight, bias, targets = problem(CHUNK + 5, torch.float32)
    total, _ = label_smoothed_loss(states, weight, bias, targets, smoothing)
    expected = F.cross_entropy(F.linear(states, weight, bias), targets, reduction="sum", label_smoothing=smoothing)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    ours = torch.autograd.grad(total, [states, weight, bias])
    theirs = torch.autograd.grad(expected, [states, weight, bias])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_second_number_is_the_negative_log_likelihood(smoothing: float) -> None:
    states, weight, bias, targets = problem(CHUNK + 5)
    total, plain = label_smoothed_loss(states, weight, bias, targets, smoothing)
    expected = F.cross_entropy(F.linear(states, weight, bias), targets, reduction="sum")
    assert plain.item() == pytest.approx(expected.item(), rel=1e-5)
    assert not plain.requires_grad
    assert total.requires_grad


def test_a_shared_matrix_gets_the_gradients_of_both_its_uses() -> None:
    _, weight, bias, targets = problem(40)
    tokens = torch.randint(0, V, (40,))
    total, _ = label_smoothed_loss(weight[tokens], weight, bias, targets, 0.1)
    expected = F.cross_entropy(F.linear(weight[tokens], weight, bias), targets, reduction="sum", label_smoothing=0.1)
    ours, theirs = (torch.autograd.grad(loss, weight)[0] for loss in (total, expected))
    assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_without_a_bias_value_and_gradients_equal_pytorchs(smoothing: float) -> None:
    states, weight, _, targets = problem(CHUNK + 5)
    total, plain = label_smoothed_loss(states, weight, None, targets, smoothing)
    expected = F.cross_entropy(states @ weight.T, targets, reduction="sum", label_smoothing=smoothing)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert plain.item() == pytest.approx(F.cross_entropy(states @ weight.T, targets, reduction="sum").item(), rel=1e-5)
    ours = torch.autograd.grad(7 * total, [states, weight])
    theirs = torch.autograd.grad(7 * expected, [states, weight])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert label_smoothed_loss(states, weight, None, targets, smoothing)[0].item() == total.item()


def test_large_logits_stay_finite() -> None:
    states, weight, bias, targets = problem(20, torch.float32)
    total, plain = label_smoothed_loss(states * 1000, weight, bias, targets, 0.1)
    total.backward()
    assert states.grad is not None
    assert bool(torch.stack([total, plain]).isfinite().all())
    assert bool(states.grad.isfinite().all())


def test_no_position_costs_nothing() -> None:
    states, weight, bias, targets = problem(0)
    total, plain = label_smoothed_loss(states, weight, bias, targets, 0.1)
    total.backward()
    assert total.item() == plain.item() == 0.0
    assert weight.grad is not None
    assert not bool(weight.grad.any())


def test_without_autograd_the_numbers_are_the_same_and_no_gradient_is_computed() -> None:
    states, weight, bias, targets = problem(CHUNK + 5)
    expected = label_smoothed_loss(states, weight, bias, targets, 0.1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        found = label_smoothed_loss(states, weight, bias, targets, 0.1)
    assert [value.item() for value in found] == [value.item() for value in expected]
    assert not found[0].requires_grad
    assert counter.get_total_flops() == 2 * (CHUNK + 5) * D * V  # the projection alone


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_bf16_autocast_comes_close(r_drop: float) -> None:
    states, weight, bias, targets = problem(CHUNK + 6, torch.float32)
    exact = label_smoothed_loss(states, weight, bias, targets, 0.1, r_drop)
    exact_gradients = torch.autograd.grad(exact[0], [states, weight, bias])
    with torch.autocast("cpu", torch.bfloat16):
        rough = label_smoothed_loss(states, weight, bias, targets, 0.1, r_drop)
    rough_gradients = torch.autograd.grad(rough[0], [states, weight, bias])
    for one, other in zip(rough, exact, strict=True):
        assert one.item() == pytest.approx(other.item(), rel=0.01)
    for one, other in zip(rough_gradients, exact_gradients, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.03


@pytest.mark.parametrize("count", [1, CHUNK // 2, CHUNK + 5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_r_drop_adds_the_divergence_of_each_pair(count: int, smoothing: float) -> None:
    states, weight, bias, targets = problem(2 * count)
    targets = torch.cat([targets[:count], targets[:count]])
    total, nll = label_smoothed_loss(states, weight, bias, targets, smoothing, r_drop=3.0)
    logits = F.linear(states, weight, bias)
    one, other = logits.log_softmax(1).chunk(2)
    forth = F.kl_div(other, one, reduction="sum", log_target=True)  # KL(one‖other)
    back = F.kl_div(one, other, reduction="sum", log_target=True)
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing) + 3.0 * (forth + back) / 2
    assert total.item() == pytest.approx(expected.item(), rel=1e-9)
    assert nll.item() == pytest.approx(F.cross_entropy(logits, targets, reduction="sum").item(), rel=1e-9)
    ours = torch.autograd.grad(7 * total, [states, weight, bias])
    theirs = torch.autograd.grad(7 * expected, [states, weight, bias])
    for mine, right in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, right, atol=1e-9, rtol=1e-9)
