"""What every attention kind takes and returns.

Shapes: B batch, H heads, Lq queries, Lk keys, K d_k, V d_v.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from heedful.nn.positions import PositionBias


class AttentionWeights(NamedTuple):
    """How much each query attends to each key."""

    weights: Tensor  # (B, H, Lq, Lk): after the softmax; a row sums to one
    scores: Tensor  # (B, H, Lq, Lk): before mask and softmax


class Attended(NamedTuple):
    """The result of an attention."""

    heads: Tensor  # (B, H, Lq, V)
    weights: AttentionWeights | None  # None unless asked for


class Attention(nn.Module):
    """Base class of the attention kinds. A kind may have parameters of its own."""

    @abstractmethod
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_mask: Tensor | None = None,
        causal: bool = False,
        start: int = 0,
        bias: PositionBias | None = None,
        dropout: float = 0.0,
        return_weights: bool = False,
    ) -> Attended:
        """Attend from query (B, H, Lq, K) to key (B, H, Lk, K) and value (B, H, Lk, V).

        `key_mask` (B, Lk) is True on keys that may be attended to. `causal`: a query sees no later key. Keys have the
        positions 0 … Lk − 1, queries start … start + Lq − 1. `bias` depends on positions and is added to the scores.
        `dropout` applies to the weights. A query with nothing to attend to gets zeros.
        """
