"""Label-smoothed cross-entropy (SPEC 11), together with the projection to the vocabulary.

Shapes: N positions, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 256  # positions whose (chunk, V) logits exist at one time
LEAST = 1e-30  # a chance below it is too near to zero to take its logarithm


class _ProjectedLoss(torch.autograd.Function):
    """Logits of a chunk are made, scored, turned into their gradient and dropped, all in the forward pass.

    That gradient is p − (1−ε) onehot(answer) − ε/V. Its last part is the same for every logit, and so is added to what
    becomes of the others; nor does the mean logit need the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, agreement: float
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(states.dtype, torch.float32)  # sums in bf16 would lose what they are made of
        total, plain = states.new_zeros(2, dtype=exact).unbind()
        wanted = any(ctx.needs_input_grad)
        grad_states = torch.empty_like(states)
        grad_weight = torch.zeros_like(weight, dtype=exact)
        grad_bias = torch.zeros_like(weight[:, 0], dtype=exact)
        vocabulary, even = weight.size(0), smoothing / weight.size(0)
        weight_sum = weight.sum(0, dtype=exact)
        bias_sum = 0.0 if bias is None else bias.sum(dtype=exact)
        cpu = states.device.type == "cpu"
        # On a CPU chances take the place of their logits, unless these are still needed.
        room = states.new_empty(1 if cpu and not agreement else 2, min(CHUNK, states.size(0)), vocabulary)
        for chunk in _chunks(targets, agreement > 0.0):
            rows, answers = states[chunk], targets[chunk][:, None]
            logits, chances = room[0, : len(rows)], room[-1, : len(rows)]  # (n, V)
            if bias is None:
                torch.mm(rows, weight.T, out=logits)
            else:
                torch.addmm(bias, rows, weight.T, out=logits)
            picked = logits.gather(1, answers).to(exact)
            norm = None if cpu else logits.logsumexp(1, keepdim=True).to(exact)  # a look at the numbers would be a wait
            torch.softmax(logits, 1, out=chances)
            if norm is None:
                likely = chances.gather(1, answers).to(exact)
                if bool((likely > LEAST).all()):
                    norm = picked - likely.log()  # as above, but without another pass over the logits
                else:
                    norm = torch.nn.functional.linear(rows, weight, bias).to(exact).logsumexp(1, keepdim=True)
            nll = (norm - picked).sum()
            plain = plain + nll
            # −(1−ε) log p(answer) − ε/V Σ_v log p(v)
            logit_sum = rows.sum(0, dtype=exact) @ weight_sum + len(rows) * bias_sum
            total = total + (1.0 - smoothing) * nll + smoothing * norm.sum() - even * logit_sum
            if agreement:
                total = total + _agree(logits, chances, agreement)
            if not wanted:
                continue
            grad = chances
            grad[torch.arange(len(rows), device=rows.device), answers[:, 0]] += smoothing - 1.0
            grad_states[chunk] = grad @ weight
            if exact == grad.dtype:
                grad_weight.addmm_(grad.T, rows)
            else:
                grad_weight += grad.T @ rows
            if bias is not None:
                grad_bias += (grad.new_ones(1, len(rows)) @ grad)[0]
        if wanted and smoothing:
            grad_states -= (even * weight_sum).to(states.dtype)
            grad_weight -= even * states.sum(0, dtype=exact)
            grad_bias -= even * states.size(0)
        ctx.grads = (grad_states, grad_weight, None if bias is None else grad_bias)
        ctx.mark_non_differentiable(plain)
        return total, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor, grad_plain: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias = ctx.grads
        ctx.grads = None
        kind = states.dtype
        bias = None if bias is None else bias.mul_(grad_total).to(kind)
        return states.mul_(grad_total), weight.mul_(grad_total).to(kind), bias, None, None, None


def _chunks(targets: Tensor, twins: bool) -> Iterator[slice | Tensor]:
    """Places of the positions that are scored together: in turn, or (twins) some of the first half with their twins."""
    count = len(targets)
    if not twins:
        yield from (slice(start, start + CHUNK) for start in range(0, count, CHUNK))
        return
    for some in torch.arange(count // 2, device=targets.device).split(CHUNK // 2):
        yield torch.cat([some, some + count // 2])


def _agree(logits: Tensor, chances: Tensor, strength: float) -> Tensor:
    """strength · ½ (KL(p‖q) + KL(q‖p)) summed over positions, p and q being the two halves of `chances` (2n, V).

    `chances` becomes p and q plus the gradient of this with respect to the logits; `logits` are used up.
    """
    n, half = len(logits) // 2, 0.5 * strength
    exact = torch.promote_types(logits.dtype, torch.float32)
    p, q = chances[:n], chances[n:]
    apart = logits[:n].sub_(logits[n:])  # log p − log q, but for a number a row, which cancels wherever it comes
    p_apart = torch.mul(p, apart, out=logits[n:])
    q_apart = apart.mul_(q)
    # KL(p‖q), −KL(q‖p), each with that number
    forth, back = (x.sum(1, keepdim=True, dtype=exact) for x in (p_apart, q_apart))
    p_apart -= q
    q_apart += p
    p.mul_((1.0 + half - half * forth).to(p)).add_(p_apart, alpha=half)  # p + half · (p · (apart − forth) + p − q)
    q.mul_((1.0 + half + half * back).to(q)).sub_(q_apart, alpha=half)
    return half * (forth - back).sum()


def label_smoothed_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    agreement: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Sums over N positions: the smoothed loss (to train on) and the plain negative log-likelihood (to report).

    states (N, D) are projected by weight (V, D) and bias (V,), or without a bias; targets (N,). The full (N, V) logits
    never exist. With `agreement`, the second half of the positions are the first once more under other dropout, and
    agreement · ½ (KL(p‖q) + KL(q‖p)) of every such twin is added (R-Drop).
    """
    if torch.is_autocast_enabled(states.device.type):
        kind = torch.get_autocast_dtype(states.device.type)
        states, weight, bias = states.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    if not torch.is_grad_enabled():  # a Function sees requires_grad alone and would make gradients for nobody
        states, weight, bias = states.detach(), weight.detach(), None if bias is None else bias.detach()
    with torch.autocast(states.device.type, enabled=False):  # which would take softmax through float32 and back
        return _ProjectedLoss.apply(states, weight, bias, targets, smoothing, agreement)
