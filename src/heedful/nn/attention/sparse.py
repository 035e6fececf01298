"""Attention in which a query sees only some keys: those near it, global ones, and further blocks of them.

There are two ways to compute it. Where the weights are wanted, or there are few queries, every score is computed and the
pattern is a mask. Otherwise queries are cut into blocks, and only the scores of the keys that a block may see are computed
(`nn/fast/blocks.py`), so that time and memory grow with the length and not with its square.

Shapes: B batch, H heads, L length (Lq queries, Lk keys), K d_k, V d_v, n blocks of b queries, G global tokens.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.nn.attention.base import Attended, Attention, AttentionWeights, Projected
from heedful.nn.attention.full import scaled_dot_product_attention
from heedful.nn.fast.attention import fused_attention
from heedful.nn.fast.blocks import KeysOfBlocks, attend_in_blocks
from heedful.nn.masks import over_keys
from heedful.nn.positions import PositionBias


@dataclass(frozen=True)
class Keys:
    """What a pattern may depend on: how many keys there are, which of them are real, and where each row begins."""

    count: int
    causal: bool = False
    mask: Tensor | None = None  # (B, Lk), True on keys that may be attended to
    padding: Tensor | None = None  # (B,) columns of padding on the left
    chosen: Tensor | None = None  # (B, Lk), True on tokens chosen to be global
    device: torch.device | None = None

    @property
    def first(self) -> Tensor:
        """The column (B or 1, 1) of each row's first token."""
        return torch.zeros(1, 1, dtype=torch.long, device=self.device) if self.padding is None else self.padding[:, None]

    @property
    def lengths(self) -> Tensor:
        """Positions (B or 1, 1) of each row, up to its last real token."""
        if self.mask is None:
            return self.count - self.first
        return (self.mask.bool() * torch.arange(1, self.count + 1, device=self.device)).amax(-1, keepdim=True) - self.first


class SparseAttention(Attention):
    """Base class of the kinds that are a pattern. A query sees keys at most `reach` positions away, as `near` says, all global
    keys, and further keys; a global query sees every key. With `causal`, none of them sees a later key."""

    def __init__(self, reach: int, block: int) -> None:
        super().__init__()
        self.reach = reach
        self.block = block  # queries that are computed together
        self.first_counts = 1  # how many times the first block counts in a softmax
        self.full_up_to = 0  # keys, attention is full

    @abstractmethod
    def near(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        """Whether a query sees a key near it, by their positions, which broadcast to (…, Lq, Lk)."""

    def global_columns(self, keys: Keys) -> Tensor | None:
        """The columns (B or 1, G) of global tokens, −1 where a row has fewer than G; None if there are none."""
        return None

    def further_columns(self, blocks: Tensor, keys: Keys) -> Tensor | None:
        """The columns (B or 1, n, E) of further keys, neither near nor global, that the blocks of queries with the numbers
        `blocks` (B or 1, n) see, −1 where one sees fewer than E; None if there are none."""
        return None

    def pattern(self, queries: int, keys: Keys, start: int = 0) -> Tensor:
        """The pattern as a mask (B or 1, 1, Lq, Lk), in which padding is False; the queries are in the columns from `start`."""
        key_at = torch.arange(keys.count, device=keys.device)[None, None, :]  # (1, 1, Lk)
        query_at = torch.arange(start, start + queries, device=keys.device)[None, :, None]  # (1, Lq, 1)
        first = keys.first[:, :, None]
        seen = self.near(query_at - first, key_at - first)
        columns = self.global_columns(keys)
        if columns is not None:
            is_global = marked(columns, keys.count)
            seen = seen | is_global[:, None, :]
            if not keys.causal:
                seen = seen | is_global[:, start : start + queries, None]
        block = ((query_at - first)[..., 0] // self.block).clamp(min=0)  # (B or 1, Lq)
        # One query per row is a step of decoding, which needs only its own block.
        blocks = block if queries == 1 else torch.arange(int(block.max()) + 1, device=keys.device)[None]
        further = self.further_columns(blocks, keys)
        if further is not None:
            of_blocks = marked(further, keys.count)  # (B or 1, n, Lk)
            rows = torch.arange(max(len(of_blocks), len(block)), device=keys.device)[:, None]
            of_blocks = of_blocks.expand(len(rows), -1, -1)
            seen = seen | (of_blocks if queries == 1 else of_blocks[rows, block])
        if keys.count <= self.full_up_to:
            seen = torch.ones_like(seen)
        if keys.causal:
            seen = seen & (key_at <= query_at)
        mask = over_keys(keys.mask)
        return seen[:, None] if mask is None else seen[:, None] & mask

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
        """See `Attention.forward`."""
        queries = query.size(2)
        keys = Keys(key.size(2), causal, key_mask, padding, global_mask, query.device)
        near = self.block + self.reach * (1 if causal else 2)  # keys near a block of queries
        full = keys.count <= self.full_up_to
        if queries == keys.count > near and padding is None and not (return_weights or full):
            attended = Attended(self._in_blocks(query, key, value, keys, bias, dropout), None)
        else:
            mask = self.pattern(queries, keys, start)
            added = None if bias is None else bias.dense_bias(query, keys.count, start)
            if self.first_counts > 1 and not full:
                boost = self.boost(torch.arange(keys.count, device=query.device)).to(query.dtype)[None, None, None]
                added = boost if added is None else added + boost
            attended = _attend(query, key, value, mask, added, dropout, return_weights)
        columns = None if causal or full else self.global_columns(keys)  # with `causal`, they see no more than their pattern
        if columns is None:
            return attended
        return _see_everything(attended, of_globals or Projected(query, key, value), columns, key_mask, bias, dropout)

    def _in_blocks(
        self, query: Tensor, key: Tensor, value: Tensor, keys: Keys, bias: PositionBias | None, dropout: float
    ) -> Tensor:
        """The heads (B, H, L, V) of all queries, of global ones as if they were not."""
        blocks = -(-keys.count // self.block)
        real = keys.mask
        numbers = torch.arange(blocks, device=query.device)[None]
        listed = [self.global_columns(keys), self.further_columns(numbers, keys)]
        if listed[0] is not None:  # a global key that is near counts once
            local = ~marked(listed[0], keys.count)
            real = local if real is None else real.bool() & local
            listed[0] = listed[0][:, None]  # the same for every block
        found = [columns.expand(-1, blocks, -1) for columns in listed if columns is not None]
        rows = max((len(columns) for columns in found), default=1)
        further = torch.cat([columns.expand(rows, -1, -1) for columns in found], dim=-1) if found else None
        return attend_in_blocks(
            query,
            key,
            value,
            KeysOfBlocks(self.block, self.reach, self.near, keys.causal, real, further, keys.mask),
            bias,
            self.boost if self.first_counts > 1 else None,
            dropout,
        )

    def boost(self, column: Tensor) -> Tensor:
        """What is added to the scores of keys in these columns, because the first block counts several times."""
        return (column < self.block).float() * math.log(self.first_counts)


def marked(columns: Tensor, count: int) -> Tensor:
    """Lists of columns (…, N), with −1 for none → (…, count): True in the columns that are listed."""
    hits = torch.zeros(*columns.shape[:-1], count + 1, dtype=torch.bool, device=columns.device)
    return hits.scatter(-1, torch.where(columns < 0, count, columns), True)[..., :count]


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float, return_weights: bool
) -> Attended:
    """Attention by a mask, with the weights when asked for."""
    if return_weights:
        return Attended(*scaled_dot_product_attention(query, key, value, mask, bias, dropout))
    return Attended(fused_attention(query, key, value, mask, bias, dropout), None)


def _see_everything(
    attended: Attended, own: Projected, columns: Tensor, key_mask: Tensor | None, bias: PositionBias | None, dropout: float
) -> Attended:
    """The result for all queries, with the rows of the queries in `columns` (B or 1, G) replaced: they see every key."""
    length = own.query.size(2)
    at = columns.clamp(min=0).expand(own.query.size(0), -1)  # (B, G)
    query = own.query.gather(2, at[:, None, :, None].expand(-1, own.query.size(1), -1, own.query.size(3)))  # (B, H, G, K)
    added = None
    if bias is not None:
        added = bias.bias(query, at[:, None, :, None], torch.arange(length, device=query.device))
    found = _attend(query, own.key, own.value, over_keys(key_mask), added, dropout, attended.weights is not None)
    batch, place = (columns.expand_as(at) >= 0).nonzero(as_tuple=True)  # of the N global tokens of all rows
    column = at[batch, place]
    heads = attended.heads.transpose(1, 2).index_put((batch, column), found.heads[batch, :, place]).transpose(1, 2)
    if attended.weights is None or found.weights is None:
        return Attended(heads, None)
    weights, scores = (
        whole.transpose(1, 2).index_put((batch, column), rows[batch, :, place]).transpose(1, 2)
        for whole, rows in zip(attended.weights, found.weights, strict=True)
    )
    return Attended(heads, AttentionWeights(weights, scores))
