"""Where a token stands (SPEC 5): added to the embeddings, or part of the attention itself.

Shapes: B batch, H heads, L length, D d_model, K d_k.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)), for any length."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", self.compute(0, 256), persistent=False)

    def compute(self, start: int, end: int) -> Tensor:
        """Encodings of the positions start … end − 1: (end − start, D)."""
        # In double precision: a rate's rounding error is multiplied by the position.
        position = torch.arange(start, end, dtype=torch.float64)[:, None]
        even = torch.arange(0, self.d_model, 2, dtype=torch.float64)
        angle = position * torch.exp(even * (-math.log(10000.0) / self.d_model))  # in log space
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return table[:, : self.d_model].float()  # an odd D drops the last cosine

    def forward(self, length: int, start: int = 0) -> Tensor:
        """(length, D), for the positions from `start` on."""
        if start + length > self.table.size(0):  # grown, so that no input falls off its end
            self.table = self.compute(0, 2 * (start + length)).to(self.table)
        return self.table[start : start + length]


class LearnedPositions(nn.Module):
    """One learned vector a position (Table 3 (E)); what lies beyond the last one shares it."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, length: int, start: int = 0) -> Tensor:
        """(length, D), for the positions from `start` on."""
        index = torch.arange(start, start + length, device=self.table.device)
        return self.table[index.clamp(max=self.table.size(0) - 1)]


class AttentionPositions(nn.Module):
    """Positions that change the attention operation; the base class changes nothing."""

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Turn queries or keys (B, H, L, K) whose first position is `start`."""
        return x

    def bias(self, query: Tensor, keys: int, start: int) -> Tensor | None:
        """What to add to the scores: broadcasts to (B, H, Lq, keys). The first query stands at `start`."""
        return None


def distances(queries: int, keys: int, start: int, device: torch.device) -> Tensor:
    """(Lq, Lk): how far behind its query a key stands; negative when ahead."""
    query_at = torch.arange(start, start + queries, device=device)
    return query_at[:, None] - torch.arange(keys, device=device)[None, :]


class LinearBias(AttentionPositions):
    """score − slope_h · distance, slopes 2^(−8/H), 2^(−16/H) … one a head (ALiBi).

    A key ahead counts as half as far again as one behind: with equal sides an encoder could not tell a sentence from its
    reverse. A causal decoder never looks ahead.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads), persistent=False)

    def bias(self, query: Tensor, keys: int, start: int) -> Tensor:
        behind = distances(query.size(2), keys, start, query.device).to(query.dtype)
        away = torch.where(behind < 0, -1.5 * behind, behind)
        return (-self.slopes.to(query.dtype)[:, None, None] * away)[None]  # (1, H, Lq, Lk)


class RelativePositions(AttentionPositions):
    """q·(k + a_d) / √K with one learned vector a_d a distance d, clipped to ±max_distance."""

    def __init__(self, d_k: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(2 * max_distance + 1, d_k))
        nn.init.xavier_uniform_(self.table)

    def bias(self, query: Tensor, keys: int, start: int) -> Tensor:
        away = distances(query.size(2), keys, start, query.device).clamp(-self.max_distance, self.max_distance)
        by_distance = query @ self.table.T / math.sqrt(query.size(-1))  # (B, H, Lq, 2·max_distance + 1)
        index = (away + self.max_distance).expand(*query.shape[:2], -1, -1)
        return by_distance.gather(-1, index).to(query.dtype)


class RotaryPositions(AttentionPositions):
    """Pairs of features are turned by an angle proportional to the position, so q·k depends on the distance alone."""

    def __init__(self, d_k: int) -> None:
        super().__init__()
        self.rates: Tensor
        even = torch.arange(0, d_k, 2, dtype=torch.float32)
        self.register_buffer("rates", torch.exp(even * (-math.log(10000.0) / d_k)), persistent=False)

    def rotate(self, x: Tensor, start: int) -> Tensor:
        at = torch.arange(start, start + x.size(2), device=x.device, dtype=torch.float32)
        angle = at[:, None] * self.rates  # (L, K/2)
        # A pair turns as a complex number does when it is multiplied by one of length 1.
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))  # (B, H, L, K/2)
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).to(x.dtype)


PositionKind = Literal["sinusoidal", "learned", "linear-bias", "relative", "rotary", "none"]


def absolute_positions(kind: PositionKind, d_model: int, max_positions: int) -> SinusoidalPositions | LearnedPositions | None:
    """What is added to the embeddings, or None when positions are elsewhere."""
    if kind == "sinusoidal":
        return SinusoidalPositions(d_model)
    return LearnedPositions(d_model, max_positions) if kind == "learned" else None


def attention_positions(kind: PositionKind, heads: int, d_k: int, max_distance: int) -> AttentionPositions | None:
    """What a self-attention does about positions, or None when they are in the embeddings."""
    if kind == "linear-bias":
        return LinearBias(heads)
    if kind == "relative":
        return RelativePositions(d_k, max_distance)
    return RotaryPositions(d_k) if kind == "rotary" else None
