"""Label-smoothed cross-entropy and R-Drop in chunks: the (N, V) logits never exist as a whole.

The same numbers as `nn/loss.py`. Logits of a chunk are computed, scored, turned into their gradient and dropped, all in the
forward pass. Shapes: N positions, n positions of a chunk, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from heedful.nn.fast.linear import add_weight_gradient, product

CHUNK = 256  # positions whose logits exist at the same time
MIN_PROBABILITY = 1e-30  # the logarithm of a float32 below this would be inexact or −∞


def label_smoothed_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """See `nn.loss.label_smoothed_loss`. Under autocast, products are in its dtype and sums in float32."""
    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, weight, bias = states.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    if not torch.is_grad_enabled():  # a Function sees requires_grad even then; detached, it skips the gradients
        states, weight, bias = states.detach(), weight.detach(), None if bias is None else bias.detach()
    with torch.autocast(device, enabled=False):  # autocast would convert softmax to float32 and back
        # torch's Function.apply has no annotations.
        loss, nll = _ChunkedLoss.apply(states, weight, bias, targets, smoothing, r_drop)  # type: ignore[no-untyped-call]
    return loss, nll


class _ChunkedLoss(torch.autograd.Function):
    """The gradient of the loss with respect to the logits is p − (1 − ε) onehot(target) − ε/V.

    The last term is the same for every logit, so it is left out of the chunks and added to the sums at the end. For the
    same reason the sum of all logits, which smoothing needs, is computed from the sums of states and weights.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, r_drop: float
    ) -> tuple[Tensor, Tensor]:
        sum_dtype = torch.promote_types(states.dtype, torch.float32)  # bf16 is too coarse for sums
        loss, nll = states.new_zeros(2, dtype=sum_dtype).unbind()
        needs_grad = any(ctx.needs_input_grad)
        grad_states = torch.empty_like(states)  # (N, D)
        grad_weight = weight.new_zeros(weight.size(1), weight.size(0), dtype=sum_dtype)  # (D, V)
        grad_bias = torch.zeros_like(weight[:, 0], dtype=sum_dtype)  # (V,)
        uniform = smoothing / weight.size(0)  # ε/V
        weight_sum = weight.sum(0, dtype=sum_dtype)  # (D,)
        bias_sum = 0.0 if bias is None else bias.sum(dtype=sum_dtype)
        on_cpu = states.device.type == "cpu"
        for chunk in _chunks(targets, r_drop > 0.0):
            rows, answers = states[chunk], targets[chunk][:, None]  # (n, D), (n, 1)
            logits = product(rows, weight, bias)  # (n, V)
            answer_logits = logits.gather(1, answers).to(sum_dtype)  # (n, 1)
            # log Σ_v exp(logit_v). On a CPU it follows from the softmax of the answer, without another pass over the
            # logits; on a GPU, checking whether that is exact would force a device sync.
            normalizer = None if on_cpu else logits.logsumexp(1, keepdim=True).to(sum_dtype)  # (n, 1)
            # On a CPU the softmax can run in place, unless R-Drop needs the logits, too.
            probabilities = torch.softmax(logits, 1, out=logits if on_cpu and not r_drop else torch.empty_like(logits))
            if normalizer is None:
                answer_probabilities = probabilities.gather(1, answers).to(sum_dtype)
                if bool((answer_probabilities > MIN_PROBABILITY).all()):
                    normalizer = answer_logits - answer_probabilities.log()
                else:
                    normalizer = product(rows, weight, bias).to(sum_dtype).logsumexp(1, keepdim=True)
            chunk_nll = (normalizer - answer_logits).sum()
            nll = nll + chunk_nll
            # −(1 − ε) log p(target) − ε/V Σ_v log p(v), where log p(v) = logit_v − normalizer
            logit_sum = rows.sum(0, dtype=sum_dtype) @ weight_sum + len(rows) * bias_sum
            loss = loss + (1.0 - smoothing) * chunk_nll + smoothing * normalizer.sum() - uniform * logit_sum
            if r_drop:
                loss = loss + _add_r_drop(logits, probabilities, r_drop)
            if not needs_grad:
                continue
            grad = probabilities  # becomes p − (1 − ε) onehot(target), plus R-Drop's gradient
            grad[torch.arange(len(rows), device=rows.device), answers[:, 0]] += smoothing - 1.0
            grad_states[chunk] = product(grad, weight.T)
            add_weight_gradient(grad_weight, rows, grad)
            if bias is not None:
                grad_bias += (grad.new_ones(1, len(rows)) @ grad)[0]
        if needs_grad and smoothing:  # the term −ε/V of every logit's gradient
            grad_states -= (uniform * weight_sum).to(states.dtype)
            grad_weight -= uniform * states.sum(0, dtype=sum_dtype)[:, None]
            grad_bias -= uniform * states.size(0)
        ctx.grads = (grad_states, grad_weight.T, None if bias is None else grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, grad_nll: Tensor) -> tuple[Tensor | None, ...]:
        grad_states, grad_weight, grad_bias = ctx.grads
        ctx.grads = None
        dtype = grad_states.dtype
        grad_bias = None if grad_bias is None else grad_bias.mul_(grad_loss).to(dtype)
        return grad_states.mul_(grad_loss), grad_weight.mul_(grad_loss).to(dtype), grad_bias, None, None, None


def _chunks(targets: Tensor, pairs: bool) -> Iterator[slice | Tensor]:
    """Indices of the positions of each chunk; with R-Drop, positions of the first half together with their repetitions."""
    count = len(targets)
    if not pairs:
        yield from (slice(start, start + CHUNK) for start in range(0, count, CHUNK))
        return
    for first in torch.arange(count // 2, device=targets.device).split(CHUNK // 2):
        yield torch.cat([first, first + count // 2])


def _add_r_drop(logits: Tensor, probabilities: Tensor, r_drop: float) -> Tensor:
    """r_drop · ½ (KL(p‖q) + KL(q‖p)), where p and q are the two halves of `probabilities` (2n, V).

    Adds its gradient with respect to the logits to `probabilities`, and overwrites `logits`.
    """
    n, half = len(logits) // 2, 0.5 * r_drop
    sum_dtype = torch.promote_types(logits.dtype, torch.float32)
    p, q = probabilities[:n], probabilities[n:]
    difference = logits[:n].sub_(logits[n:])  # log p − log q, up to a constant per row, which cancels below
    p_difference = torch.mul(p, difference, out=logits[n:])
    q_difference = difference.mul_(q)
    # KL(p‖q) and −KL(q‖p), up to the same constant
    kl_pq, kl_qp = (x.sum(1, keepdim=True, dtype=sum_dtype) for x in (p_difference, q_difference))  # (n, 1)
    p_difference -= q
    q_difference += p
    # With respect to the logits of p, the gradient is half · (p · (difference − kl_pq) + p − q); likewise for q.
    p.mul_((1.0 + half - half * kl_pq).to(p)).add_(p_difference, alpha=half)
    q.mul_((1.0 + half + half * kl_qp).to(q)).sub_(q_difference, alpha=half)
    return half * (kl_pq - kl_qp).sum()
