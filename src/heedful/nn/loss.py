"""Label-smoothed cross-entropy (SPEC 11), together with the projection to the vocabulary.

Shapes: N positions, D d_model, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 256  # positions whose (chunk, V) logits exist at one time


class _ProjectedLoss(torch.autograd.Function):
    """Logits of a chunk are made, scored, turned into their gradient in place and dropped, all in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(states.dtype, torch.float32)  # sums in bf16 would lose what they are made of
        total, plain = states.new_zeros(2, dtype=exact).unbind()
        wanted = any(ctx.needs_input_grad)
        grad_states = torch.empty_like(states) if wanted else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        grad_bias = torch.zeros_like(bias, dtype=exact) if wanted and bias is not None else None
        vocabulary = weight.size(0)
        for start in range(0, states.size(0), CHUNK):
            rows, answers = states[start : start + CHUNK], targets[start : start + CHUNK, None]
            logits = rows @ weight.T if bias is None else torch.addmm(bias, rows, weight.T)  # (n, V)
            picked = logits.gather(1, answers).to(exact)
            mean = logits.mean(1, keepdim=True, dtype=exact) if smoothing else picked
            peak = logits.amax(1, keepdim=True)
            chances = logits.sub_(peak).exp_()  # in place: softmax, but for its denominator
            denominator = chances.sum(1, keepdim=True, dtype=exact)
            norm = denominator.log() + peak
            nll = (norm - picked).sum()
            plain = plain + nll
            # −(1−ε) log p(answer) − ε/V Σ_v log p(v)
            total = total + (1.0 - smoothing) * nll + smoothing * (norm - mean).sum()
            if grad_states is None or grad_weight is None:
                continue
            grad = chances.mul_(denominator.reciprocal().to(chances.dtype))
            if smoothing:
                grad.sub_(smoothing / vocabulary)
            grad.scatter_add_(1, answers, grad.new_full(answers.shape, smoothing - 1.0))
            torch.mm(grad, weight, out=grad_states[start : start + CHUNK])
            if exact == grad.dtype:
                grad_weight.addmm_(grad.T, rows)
            else:
                grad_weight += grad.T @ rows
            if grad_bias is not None:
                grad_bias += grad.sum(0, dtype=exact)
        ctx.grads = (grad_states, grad_weight, grad_bias)
        ctx.mark_non_differentiable(plain)
        return total, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor, grad_plain: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias = ctx.grads
        ctx.grads = None
        kind = states.dtype
        bias = None if bias is None else bias.mul_(grad_total).to(kind)
        return states.mul_(grad_total), weight.mul_(grad_total).to(kind), bias, None, None


def label_smoothed_loss(
    states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Sums over N positions: the smoothed loss (to train on) and the plain negative log-likelihood (to report).

    states (N, D) are projected by weight (V, D) and bias (V,), or without a bias; targets (N,). The full (N, V) logits
    never exist.
    """
    if torch.is_autocast_enabled(states.device.type):
        kind = torch.get_autocast_dtype(states.device.type)
        states, weight, bias = states.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    if not torch.is_grad_enabled():  # a Function sees requires_grad alone and would make gradients for nobody
        states, weight, bias = states.detach(), weight.detach(), None if bias is None else bias.detach()
    return _ProjectedLoss.apply(states, weight, bias, targets, smoothing)
