"""Positions (Section 3.5): added to the embeddings, or part of the attention itself.

Shapes: B batch, H heads, L length (Lq queries, Lk keys), D d_model, K d_k.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn


def positions_from(start: int | Tensor, length: int, device: torch.device) -> Tensor:
    """The positions start … start + length − 1: (length,), or (B, length) when each row has a start of its own (B,)."""
    if isinstance(start, Tensor):
        return start[:, None] + torch.arange(length, device=device)
    return torch.arange(start, start + length, device=device)


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)), of any length."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", self.compute(0, 256), persistent=False)

    def compute(self, start: int, end: int) -> Tensor:
        """Encodings of the positions start … end − 1: (end − start, D)."""
        # In double precision, because the rounding error of a frequency is multiplied by the position.
        position = torch.arange(start, end, dtype=torch.float64, device="cpu")[:, None]
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64, device="cpu")
        angle = position * torch.exp(even * (-math.log(10000.0) / self.d_model))  # pos / 10000^(2i/D), (L, D/2)
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (L, D)
        return table[:, : self.d_model].float()  # if D is odd, drop the last cosine

    def forward(self, length: int, start: int | Tensor = 0) -> Tensor:
        """Encodings (length, D) of the positions from `start` on; (B, length, D) when each row has a start of its own (B,)."""
        end = length + (int(start.max()) if isinstance(start, Tensor) else start)
        table = self.table  # a local variable, because several threads may decode with one model
        if end > table.size(0):  # the table grows with the longest input
            self.table = table = self.compute(0, 2 * end).to(table)
        return table[positions_from(start, length, table.device)] if isinstance(start, Tensor) else table[start:end]


class LearnedPositions(nn.Module):
    """One learned vector per position (Table 3, row E); positions beyond the last vector share it."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, length: int, start: int | Tensor = 0) -> Tensor:
        """Vectors (length, D) of the positions from `start` on; (B, length, D) when each row has a start of its own (B,)."""
        index = positions_from(start, length, self.table.device)
        return self.table[index.clamp(max=self.table.size(0) - 1)]


class RotaryPositions(nn.Module):
    """Rotary positions (Su et al., 2021): feature pair i of a query or key at position t is rotated by t · 10000^(−2i/K).

    The product of a rotated query and a rotated key then depends on their distance only.
    """

    def __init__(self, d_k: int) -> None:
        super().__init__()
        self.frequencies: Tensor
        even = torch.arange(0, d_k, 2, dtype=torch.float32, device="cpu")
        self.register_buffer("frequencies", torch.exp(even * (-math.log(10000.0) / d_k)), persistent=False)  # (K/2,)

    def rotate(self, x: Tensor, start: int | Tensor) -> Tensor:
        """Rotate queries or keys (B, H, L, K) at the positions start … start + L − 1; `start` may differ between rows (B,)."""
        rotation = self.rotation(positions_from(start, x.size(2), x.device))  # (L, K/2) or (B, L, K/2)
        if rotation.dim() == 3:
            rotation = rotation[:, None]  # the same for all heads
        # A pair of features as one complex number is rotated by a product with e^(i · angle).
        if any(stride % 2 for stride in x.stride()[:-1]):  # a slice of a projection of odd width, as with an odd d_v
            x = x.contiguous()
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))  # (B, H, L, K/2)
        return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)

    def rotation(self, at: Tensor) -> Tensor:
        """Positions (…) → the complex numbers e^(i · angle) by which pairs of features are rotated there: (…, K/2)."""
        angle = at.float()[..., None] * self.frequencies
        return torch.polar(torch.ones_like(angle), angle)


class PositionBias(nn.Module):
    """A bias on the attention scores that depends on the positions of query and key."""

    @abstractmethod
    def bias(self, query: Tensor, query_at: Tensor, key_at: Tensor) -> Tensor:
        """The bias for given positions, for attention kinds that compute only some of the scores.

        query (B, H, …, Lq, K); the positions query_at and key_at, and the result, broadcast to (B, H, …, Lq, Lk).
        """

    def dense_bias(self, query: Tensor, keys: int, start: int) -> Tensor:
        """The bias of every key for every query: broadcasts to (B, H, Lq, keys).

        Queries have the positions start … start + Lq − 1, keys 0 … keys − 1.
        """
        query_at = torch.arange(start, start + query.size(-2), device=query.device)
        key_at = torch.arange(keys, device=query.device)
        return self.bias(query, query_at[:, None], key_at[None, :])


class LinearBias(PositionBias):
    """ALiBi (Press et al., 2021): score − slope_h · distance, with the slopes 2^(−8/H), 2^(−16/H), …, one per head.

    Keys after the query count 1.5 times their distance: with a symmetric bias, an encoder could not tell a sentence from
    its reverse. In a causal decoder there are no such keys.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cpu") / heads), persistent=False)  # (H,)

    def bias(self, query: Tensor, query_at: Tensor, key_at: Tensor) -> Tensor:
        behind = (query_at - key_at).to(query.dtype)  # (…, Lq, Lk)
        distance = torch.where(behind < 0, -1.5 * behind, behind)
        slopes = self.slopes.to(query.dtype).view(1, -1, *[1] * (query.dim() - 2))  # (1, H, …, 1, 1)
        return -slopes * distance


class RelativePositions(PositionBias):
    """Shaw et al. (2018): q·(k + a_d) / √K with one learned vector a_d per distance d, clipped to ±max_distance."""

    def __init__(self, d_k: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(2 * max_distance + 1, d_k))
        nn.init.xavier_uniform_(self.table)

    def bias(self, query: Tensor, query_at: Tensor, key_at: Tensor) -> Tensor:
        distance = (query_at - key_at).clamp(-self.max_distance, self.max_distance)  # (…, Lq, Lk)
        by_distance = query @ self.table.T / math.sqrt(query.size(-1))  # (B, H, …, Lq, 2 · max_distance + 1)
        index = (distance + self.max_distance).expand(*query.shape[:-1], distance.size(-1))
        return by_distance.gather(-1, index).to(query.dtype)  # (B, H, …, Lq, Lk)


AttentionPositions = RotaryPositions | PositionBias
PositionKind = Literal["sinusoidal", "learned", "linear-bias", "relative", "rotary", "none"]


def absolute_positions(kind: PositionKind, d_model: int, max_positions: int) -> SinusoidalPositions | LearnedPositions | None:
    """Positions to add to the embeddings, or None if this kind adds none."""
    if kind == "sinusoidal":
        return SinusoidalPositions(d_model)
    return LearnedPositions(d_model, max_positions) if kind == "learned" else None


def attention_positions(kind: PositionKind, heads: int, d_k: int, max_distance: int) -> AttentionPositions | None:
    """Positions inside a self-attention, or None if this kind has none there."""
    if kind == "linear-bias":
        return LinearBias(heads)
    if kind == "relative":
        return RelativePositions(d_k, max_distance)
    return RotaryPositions(d_k) if kind == "rotary" else None
