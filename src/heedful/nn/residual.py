"""Residual connection, layer normalisation and dropout around a sub-layer (SPEC 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Norm = Literal["post", "pre"]


class Dropout(nn.Module):
    """Zero each value with probability p and scale the others by 1/(1 − p).

    On a CPU drawing the random numbers is what dropout costs, so there one 64-bit draw decides eight values: p is
    rounded to 1/256 and the scale follows the rounded p. Where that would be off by more than a twentieth, as for 0.001,
    a draw decides four values and p is rounded to 1/65,536; a p that is smaller still takes PyTorch's own dropout.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        return x * self.factors(x) if x.device.type == "cpu" else nn.functional.dropout(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + Dropout(y), on a CPU in one pass."""
        if self.training and self.p and x.device.type == "cpu":
            return torch.addcmul(x, y.to(x.dtype), self.factors(x))
        return x + self(y)

    def factors(self, x: Tensor) -> Tensor:
        """By what the values of x are multiplied: 0 or the scale."""
        # (type, how many values it has, the least of them)
        dtype, values, least = (torch.uint8, 256, 0) if self._fits(256) else (torch.int16, 65536, -32768)
        if not self._fits(values):
            return nn.functional.dropout(torch.ones_like(x), self.p)
        cut = round(self.p * values)
        per_draw = 8 // dtype.itemsize
        draws = torch.empty(-(-x.numel() // per_draw), dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(dtype)[: x.numel()].view(x.shape) >= cut + least
        return keep.to(x.dtype).mul_(values / (values - cut))

    def _fits(self, values: int) -> bool:
        """Whether p is close to a multiple of 1/values, and leaves something."""
        cut = round(self.p * values)
        return cut < values and abs(cut / values - self.p) <= self.p / 20


class Residual(nn.Module):
    """Post-norm: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, d_model: int, dropout: float, norm: Norm, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, epsilon)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        if self.pre:
            return self.dropout.add(x, sublayer(self.norm(x)))
        return self.norm(self.dropout.add(x, sublayer(x)))
