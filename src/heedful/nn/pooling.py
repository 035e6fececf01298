"""Turning n token vectors into one (SPEC 15): the mean, the first token, or learned queries that attend.

Shapes: B batch, L length, D d_model, Q queries. A masked position never matters.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.attention import MultiHeadAttention
from heedful.nn.masks import over_keys

Pooling = Literal["cls", "mean", "attention"]


def first_token(states: Tensor) -> Tensor:
    """(B, L, D) → (B, D): the state of the first token, [CLS], which is never padding."""
    return states[:, 0]


def mean_pooling(states: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, L, D), mask (B, L) → (B, D): the mean over real positions; zeros where there is none."""
    if mask is None:
        return states.mean(1)
    real = mask.bool()[:, :, None]  # (B, L, 1)
    return states.masked_fill(~real, 0.0).sum(1) / real.sum(1).clamp(min=1)


class AttentionPooling(nn.Module):
    """Learned query vectors, for example one a class, cross-attend the sequence."""

    def __init__(self, d_model: int, heads: int, queries: int = 1) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, heads)
        self.queries = nn.Parameter(torch.empty(queries, d_model))
        nn.init.normal_(self.queries, std=0.02)  # small: what is learned starts from about the mean over positions

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, L, D), mask (B, L) → (B, Q, D): what each query found."""
        queries = self.queries.expand(states.size(0), -1, -1)
        return self.attention(queries, states, mask=over_keys(mask))


def class_scores(pooled: Tensor, linear: nn.Linear) -> Tensor:
    """One vector (B, D) → (B, classes) by the linear map; a vector a class (B, classes, D) → each its own class's score."""
    if pooled.dim() == 2:
        return linear(pooled)
    return (pooled * linear.weight).sum(-1) + linear.bias
