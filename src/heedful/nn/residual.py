"""Residual connection and layer normalisation around a sub-layer (Section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from heedful.nn.dropout import Dropout

Norm = Literal["post", "pre"]


class Residual(nn.Module):
    """Post-norm, as in the paper: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, d_model: int, dropout: float, norm: Norm, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, epsilon)
        self.dropout = Dropout(dropout)
        self.pre = norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        return self.after(x, sublayer(self.before(x)))

    def before(self, x: Tensor) -> Tensor:
        """The input of the sub-layer: LayerNorm(x) with pre-norm, otherwise x."""
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """x plus the output y of the sub-layer, with dropout; normalised with post-norm."""
        total = self.dropout.add(x, y)
        normed: Tensor = total if self.pre else self.norm(total)
        return normed
