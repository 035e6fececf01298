"""The loss with its projection against PyTorch's cross-entropy over the full logits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from heedful.nn.loss import CHUNK, label_smoothed_loss

SIZES = [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 37]
D, V = 12, 29


def problem(count: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, weight, bias (all to be differentiated) and targets."""
    torch.manual_seed(count)
    states, weight, bias = torch.randn(count, D, dtype=dtype), torch.randn(V, D, dtype=dtype), torch.randn(V, dtype=dtype)
    return states.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), torch.randint(0, V, (count,))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_equal_pytorchs_cross_entropy(count: int, smoothing: float) -> None:
    states, weight, bias, targets = problem(count)
    total, _ = label_smoothed_loss(states, weight, bias, targets, smoothing)
    expected = F.cross_entropy(F.linear(states, weight, bias), targets, reduction="sum", label_smoothing=smoothing)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    # Seven times the loss: the gradient that arrives from above is passed on.
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
def test_the_second_number_is_the_plain_negative_log_likelihood(smoothing: float) -> None:
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


def test_without_gradients_the_numbers_are_the_same_and_no_gradient_is_made() -> None:
    states, weight, bias, targets = problem(CHUNK + 5)
    expected = label_smoothed_loss(states, weight, bias, targets, 0.1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        found = label_smoothed_loss(states, weight, bias, targets, 0.1)
    assert [value.item() for value in found] == [value.item() for value in expected]
    assert not found[0].requires_grad
    assert counter.get_total_flops() == 2 * (CHUNK + 5) * D * V  # the projection alone


@pytest.mark.parametrize("agreement", [0.0, 1.0])
def test_bf16_autocast_comes_close(agreement: float) -> None:
    states, weight, bias, targets = problem(CHUNK + 6, torch.float32)
    exact = label_smoothed_loss(states, weight, bias, targets, 0.1, agreement)
    exact_gradients = torch.autograd.grad(exact[0], [states, weight, bias])
    with torch.autocast("cpu", torch.bfloat16):
        rough = label_smoothed_loss(states, weight, bias, targets, 0.1, agreement)
    rough_gradients = torch.autograd.grad(rough[0], [states, weight, bias])
    for one, other in zip(rough, exact, strict=True):
        assert one.item() == pytest.approx(other.item(), rel=0.01)
    for one, other in zip(rough_gradients, exact_gradients, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.03


@pytest.mark.parametrize("count", [1, CHUNK // 2, CHUNK + 5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_twins_pay_for_their_disagreement(count: int, smoothing: float) -> None:
    states, weight, bias, targets = problem(2 * count)
    targets = torch.cat([targets[:count], targets[:count]])
    total, plain = label_smoothed_loss(states, weight, bias, targets, smoothing, agreement=3.0)
    logits = F.linear(states, weight, bias)
    one, other = logits.log_softmax(1).chunk(2)
    forth = F.kl_div(other, one, reduction="sum", log_target=True)  # KL(one‖other)
    back = F.kl_div(one, other, reduction="sum", log_target=True)
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing) + 3.0 * (forth + back) / 2
    assert total.item() == pytest.approx(expected.item(), rel=1e-9)
    assert plain.item() == pytest.approx(F.cross_entropy(logits, targets, reduction="sum").item(), rel=1e-9)
    ours = torch.autograd.grad(7 * total, [states, weight, bias])
    theirs = torch.autograd.grad(7 * expected, [states, weight, bias])
    for mine, right in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, right, atol=1e-9, rtol=1e-9)
