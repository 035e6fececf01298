"""Residual connection, layer normalisation and dropout around a sub-layer (SPEC 7)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

NORMS = ("post", "pre")


class Dropout(nn.Module):
    """Zero each value with probability p and scale the others by 1/(1 − p).

    On a CPU drawing the random numbers is what dropout costs, so there one 64-bit draw decides eight values: p is
    rounded to 1/256 and the scale follows the rounded p.
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
        cut = max(1, min(255, round(self.p * 256)))
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= cut
        return keep.to(x.dtype).mul_(256 / (256 - cut))


class Residual(nn.Module):
    """Post-norm: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, d_model: int, dropout: float, norm: str, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, epsilon)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        if self.pre:
            return self.dropout.add(x, sublayer(self.norm(x)))
        return self.norm(self.dropout.add(x, sublayer(x)))
