"""Attention block by block: a block of queries and only the keys that it may see.

Shapes: B batch, H heads, L length, K d_k, V d_v, n blocks of b queries, of which m are a piece, W keys near a block, E further
keys of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.fast.attention import fused_attention
from heedful.nn.fast.pieces import Piece, attend_in_pieces, blocks_of_piece
from heedful.nn.positions import PositionBias


class KeysOfBlocks(NamedTuple):
    """Which keys a block of queries may see."""

    block: int  # b, queries of a block
    reach: int  # of the keys near a query: none is further away
    near: Callable[[Tensor, Tensor], Tensor]  # whether a query sees a key near it, by their positions
    causal: bool  # no query sees a later key
    real: Tensor | None  # (B or 1, L): False on keys that count as near to nobody
    further: Tensor | None = None  # (B or 1, n, E): columns of further keys; −1 is none
    mask: Tensor | None = None  # (B, L): False on further keys that nobody sees


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: KeysOfBlocks,
    bias: PositionBias | None = None,
    boost: Callable[[Tensor], Tensor] | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The heads (B, H, L, V) of query (B, H, L, K), key (B, H, L, K) and value (B, H, L, V).

    `boost` gives what is added to the score of a further key, by its column.
    """
    batch, heads, length, _ = query.shape
    blocks = -(-length // keys.block)
    of_one = keys.block + keys.reach * (1 if keys.causal else 2) + (0 if keys.further is None else keys.further.size(2))
    m = blocks_of_piece(batch * heads * keys.block * of_one)

    def piece(number: int) -> Piece:
        first = number * m
        return _piece(query, keys, first, min(m, blocks - first), bias, boost, dropout)

    parts = [x.transpose(1, 2).flatten(0, 1) for x in (query, key, value)]  # (B · L, H, K or V)
    learned = [] if bias is None else list(bias.parameters())
    (found,) = attend_in_pieces(piece, -(-blocks // m), parts, learned, dropout)  # (B, n, b, H, V)
    return found.flatten(1, 2)[:, :length].transpose(1, 2)


def _piece(
    query: Tensor,
    keys: KeysOfBlocks,
    first: int,
    m: int,
    bias: PositionBias | None,
    boost: Callable[[Tensor], Tensor] | None,
    dropout: float,
) -> Piece:
    """The m blocks from block `first` on."""
    batch, _, length, _ = query.shape
    b, device = keys.block, query.device
    before, after = keys.reach, 0 if keys.causal else keys.reach
    width = before + b + after  # W
    row = torch.arange(batch, device=device)[:, None] * length  # (B, 1): the first of each sequence

    query_at = torch.arange(first * b, (first + m) * b, device=device)
    around = torch.arange(first * b - before, (first + m) * b + after, device=device)  # of what is near some block
    is_key = (around >= 0) & (around < length)  # (m · b + before + after,)
    if keys.real is not None:
        is_key = is_key & keys.real.bool()[:, around.clamp(0, length - 1)]
    # Seen from a block, the pattern near it is the same for all blocks.
    in_block, in_width = torch.arange(b, device=device)[:, None], torch.arange(width, device=device) - before
    near = keys.near(in_block, in_width)  # (b, W)
    if keys.causal:
        near = near & (in_width <= in_block)
    mask = (
        near & is_key.expand(1 if keys.real is None else len(keys.real), -1).unfold(1, width, b)[:, :, None]
    )  # (B or 1, m, b, W)
    key_rows = row + around.clamp(0, length - 1)  # (B, m · b + before + after)
    query_at, key_at = query_at.view(m, b, 1), around.unfold(0, width, b)[:, None]  # (m, b, 1), (m, 1, W)

    column = None
    if keys.further is not None:
        listed = keys.further[:, first : first + m]  # (B or 1, m, E)
        column = listed.clamp(min=0)
        seen = (listed >= 0)[:, :, None]
        if keys.mask is not None:
            seen = seen & keys.mask.bool().gather(1, column.expand(batch, -1, -1).flatten(1)).view(batch, m, 1, -1)
        if keys.causal:
            seen = seen & (column[:, :, None] <= query_at)
        several = max(len(mask), len(seen))
        mask = torch.cat([mask.expand(several, -1, -1, -1), seen.expand(several, -1, b, -1)], dim=-1)
        key_at = torch.cat([key_at.expand(len(column), -1, -1, -1), column[:, :, None]], dim=-1)  # (B or 1, m, 1, W + E)
        key_rows = torch.cat([key_rows, row + column.flatten(1).expand(batch, -1)], dim=-1)

    def beside(x: Tensor) -> Tensor:
        """The gathered keys or values → (B · m, H, W + E, K or V)"""
        x = x.unflatten(0, (batch, -1))
        found = x[:, : len(around)].unfold(1, width, b).transpose(-1, -2)  # (B, m, H, W, K)
        if column is not None:
            further = x[:, len(around) :].unflatten(1, (m, -1)).transpose(2, 3)
            found = torch.cat([found, further], dim=3)
        return found.flatten(0, 1)

    def over_blocks(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.expand(batch, m, *x.shape[2:]).flatten(0, 1)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor]:
        blocks = query.view(batch, m, b, *query.shape[1:]).transpose(2, 3)  # (B, m, H, b, K)
        added = None
        if bias is not None:
            at = key_at if key_at.dim() == 4 else key_at[None]
            added = bias.bias(blocks.transpose(1, 2), query_at, at[:, None]).transpose(1, 2)  # (B or 1, m, H, b, W + E)
        if boost is not None and column is not None:
            more = F.pad(boost(column)[:, :, None, None].to(query.dtype), (width, 0))  # (B or 1, m, 1, 1, W + E)
            added = more if added is None else added + more
        found = fused_attention(
            blocks.flatten(0, 1), beside(key), beside(value), over_blocks(mask[:, :, None]), over_blocks(added), dropout
        )  # (B · m, H, b, V)
        return (found.unflatten(0, (batch, m)).transpose(2, 3),)

    query_rows = row + query_at.flatten().clamp(max=length - 1)
    return Piece(query_rows.flatten(), key_rows.flatten(), attend)
