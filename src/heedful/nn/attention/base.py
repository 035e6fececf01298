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


class Projected(NamedTuple):
    """Queries (B, H, L, K), keys (B, H, L, K) and values (B, H, L, V) of one sequence."""

    query: Tensor
    key: Tensor
    value: Tensor


class Attention(nn.Module):
    """Base class of the attention kinds. A kind may have parameters of its own."""

    not_causal: str = ""  # why the kind has no causal form; empty if it has one
    longest: int | None = None  # sequence that its parameters are for; None: any
    projects_globals: bool = False  # global queries, and the keys and values they see, have projections of their own
    shares_queries: bool = False  # keys are the queries, normalised, so that there is no projection of keys
    keeps: int | None = None  # how many earlier positions a cache must keep for it; None: all

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
        padding: Tensor | None = None,
        global_mask: Tensor | None = None,
        of_globals: Projected | None = None,
    ) -> Attended:
        """Attend from query (B, H, Lq, K) to key (B, H, Lk, K) and value (B, H, Lk, V).

        `key_mask` (B, Lk) is True on keys that may be attended to. `causal`: a query sees no later key. Keys are in the
        columns 0 … Lk − 1, queries in start … start + Lq − 1. `bias` depends on positions and is added to the scores.
        `dropout` applies to the weights. A query with nothing to attend to gets zeros.

        `padding` (B,) counts the columns of padding on the left of each row, where a cache has some: the first token of a
        row is in that column. `global_mask` (B, Lk) is True on tokens that are global beside the first ones, for kinds that
        have global tokens, and `of_globals` is what a global token uses instead of query, key and value.
        """
