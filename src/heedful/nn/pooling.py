"""From one vector per token to one per sequence: the mean, the first token, or learned queries that attend.

Shapes: B batch, L length, D d_model, Q queries. Masked positions have no influence.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.attention.base import AttentionWeights
from heedful.nn.multihead import MultiHeadAttention

Pooling = Literal["cls", "mean", "attention"]


def first_token(states: Tensor) -> Tensor:
    """(B, L, D) → (B, D): the state of the first token, [CLS], which is never padding."""
    return states[:, 0]


def mean_pooling(states: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, L, D), mask (B, L) → (B, D): the mean over real positions; zeros for a sequence without any."""
    if mask is None:
        return states.mean(1)
    real = mask.bool()[:, :, None]  # (B, L, 1)
    return states.masked_fill(~real, 0.0).sum(1) / real.sum(1).clamp(min=1)


class AttentionPooling(nn.Module):
    """Learned query vectors, for example one per class, attend to the sequence."""

    def __init__(self, d_model: int, heads: int, queries: int = 1) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.queries = nn.Parameter(torch.empty(queries, d_model))
        nn.init.normal_(self.queries, std=0.02)  # small queries, so that attention starts nearly uniform

    def forward(
        self, states: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """(B, L, D), mask (B, L) → one vector per query (B, Q, D), and the weights (B, H, Q, L) when asked for."""
        queries = self.queries.expand(states.size(0), -1, -1)
        pooled: Tensor | tuple[Tensor, AttentionWeights]
        pooled = self.attention(queries, states, mask=mask, return_weights=return_weights)
        return pooled


def class_scores(pooled: Tensor, linear: nn.Linear) -> Tensor:
    """Logits (B, classes) from one vector per sequence (B, D), or from one vector per class (B, classes, D).

    In the second case, each class is scored by its own vector and its own row of the linear map.
    """
    if pooled.dim() == 2:
        logits: Tensor = linear(pooled)
        return logits
    return (pooled * linear.weight).sum(-1) + linear.bias
