"""Attention block by block: a block of queries and only the keys that it may see.

Shapes: B batch, H heads, L length, K d_k, V d_v, n blocks of b queries, W keys near a block, E further keys of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.fast.attention import fused_attention
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
    batch, length = query.size(0), query.size(2)
    b, device = keys.block, query.device
    n = -(-length // b)
    before, after = keys.reach, 0 if keys.causal else keys.reach
    width = before + b + after  # W

    def cut(x: Tensor) -> Tensor:
        """(B, L, …) → (B, n, …, W): what is near each block."""
        rest = [0, 0] * (x.dim() - 2)
        return F.pad(x, (*rest, before, n * b - length + after)).unfold(1, width, b)

    query_at = torch.arange(n * b, device=device).view(n, b, 1)
    key_at = (torch.arange(n, device=device) * b - before)[:, None, None] + torch.arange(width, device=device)  # (n, 1, W)
    # Seen from a block, the pattern near it is the same for all blocks.
    near = keys.near(query_at[0], key_at[0])  # (b, W)
    if keys.causal:
        near = near & (key_at[0] <= query_at[0])
    real = keys.real if keys.real is not None else torch.ones(1, length, dtype=torch.bool, device=device)
    mask = near & cut(real.bool())[:, :, None, :]  # (B or 1, n, b, W)

    near_keys, near_values = (cut(x.transpose(1, 2)).transpose(-1, -2) for x in (key, value))  # (B, n, H, W, K or V)
    if keys.further is not None:
        column = keys.further.clamp(min=0)
        at = column[:, :, None, :]  # (B or 1, n, 1, E)
        seen = keys.further[:, :, None, :] >= 0
        if keys.mask is not None:
            seen = seen & _take(keys.mask.bool()[:, :, None], column)[..., 0][:, :, None, :]
        if keys.causal:
            seen = seen & (at <= query_at)
        rows = max(len(mask), len(seen))
        mask = torch.cat([mask.expand(rows, -1, -1, -1), seen.expand(rows, -1, b, -1)], dim=-1)
        near_keys = torch.cat([near_keys, _take(key.transpose(1, 2), column).transpose(2, 3)], dim=3)
        near_values = torch.cat([near_values, _take(value.transpose(1, 2), column).transpose(2, 3)], dim=3)
        key_at = torch.cat([key_at.expand(len(at), -1, -1, -1), at], dim=-1)  # (B or 1, n, 1, W + E)

    blocks = F.pad(query.transpose(1, 2), (0, 0, 0, 0, 0, n * b - length)).unflatten(1, (n, b)).transpose(2, 3)  # (B, n, H, b, K)
    added = None
    if bias is not None:
        key_at = key_at if key_at.dim() == 4 else key_at[None]
        added = bias.bias(blocks.transpose(1, 2), query_at, key_at[:, None]).transpose(1, 2)  # (B or 1, n, H, b, W + E)
    if boost is not None and keys.further is not None:
        more = boost(at)[:, :, None].to(query.dtype)  # (B or 1, n, 1, 1, E)
        more = F.pad(more, (width, 0))
        added = more if added is None else added + more

    def over_blocks(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.expand(batch, n, *x.shape[2:]).flatten(0, 1)

    attended = fused_attention(
        blocks.flatten(0, 1),
        near_keys.flatten(0, 1),
        near_values.flatten(0, 1),
        over_blocks(mask[:, :, None]),
        over_blocks(added),
        dropout,
    )  # (B · n, H, b, V)
    heads: Tensor = attended.unflatten(0, (batch, n)).transpose(2, 3).flatten(1, 2)[:, :length].transpose(1, 2)
    return heads


def _take(x: Tensor, columns: Tensor) -> Tensor:
    """x (B, L, …), columns (B or 1, n, E) → (B, n, E, …)"""
    rows = torch.arange(len(x), device=x.device)[:, None, None]
    taken: Tensor = x[rows, columns.expand(len(x), -1, -1)]
    return taken
