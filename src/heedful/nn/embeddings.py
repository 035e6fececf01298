"""Tokens to vectors: embedding × √D, plus the position, then dropout (SPEC 8)."""

from __future__ import annotations

import math

from torch import Tensor, nn

from heedful.nn.positions import LearnedPositions, SinusoidalPositions
from heedful.nn.residual import Dropout


class TokenEmbedding(nn.Module):
    """Dropout(E[token] · √D + position); the matrix may be shared with other parts of a model."""

    def __init__(
        self,
        weight: nn.Parameter,
        positions: SinusoidalPositions | LearnedPositions | None,
        dropout: float,
    ) -> None:
        super().__init__()
        self.weight = weight  # (vocabulary, D)
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.size(1))

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """(B, L) → (B, L, D); the first token stands at position `start`."""
        x = nn.functional.embedding(tokens, self.weight) * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.size(1), start).to(x.dtype)
        return self.dropout(x)
