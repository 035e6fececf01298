"""Label-smoothed cross-entropy (Section 5.4) and R-Drop (Liang et al., 2021), as their formulas.

Training uses `nn/fast/loss.py`: the same numbers in less memory. Shapes: N positions, D d_model, V vocabulary.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def label_smoothed_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Sums over N positions: the smoothed loss (to train on) and the negative log-likelihood (to report, no gradient).

    With p = softmax(states Wᵀ + b), the loss of a position is −(1 − ε) log p(target) − ε/V Σ_v log p(v), and its negative
    log-likelihood −log p(target). states (N, D), weight (V, D), bias (V,) or None, targets (N,), ε = smoothing.

    With `r_drop`, the second half of the positions repeats the first half under other dropout, and r_drop times
    `r_drop_penalty` is added to the loss.
    """
    log_p = F.linear(states, weight, bias).log_softmax(-1)  # (N, V)
    nll = -log_p.gather(1, targets[:, None]).sum()
    loss = (1.0 - smoothing) * nll - smoothing * log_p.mean(-1).sum()
    if r_drop:
        loss = loss + r_drop * r_drop_penalty(*log_p.chunk(2))
    return loss, nll.detach()


def r_drop_penalty(log_p: Tensor, log_q: Tensor) -> Tensor:
    """½ (KL(p‖q) + KL(q‖p)), summed over positions: log-probabilities (N, V) of the same positions under two dropouts."""
    difference = log_p - log_q
    return 0.5 * (log_p.exp() * difference - log_q.exp() * difference).sum()
