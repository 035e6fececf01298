"""Tokens to vectors: embedding × √D, plus the position, then dropout (SPEC 8); with segments and LayerNorm for BERT (SPEC 14)."""

from __future__ import annotations

import math

from torch import Tensor, nn

from heedful.nn.positions import LearnedPositions, SinusoidalPositions
from heedful.nn.residual import Dropout


class TokenEmbedding(nn.Module):
    """Dropout(Norm(E[token] · scale + position + S[segment])); the matrix may be shared with other parts of a model.

    The scale is √D unless given; segments and the norm are left out unless given.
    """

    def __init__(
        self,
        weight: nn.Parameter,
        positions: SinusoidalPositions | LearnedPositions | None,
        dropout: float,
        scale: float | None = None,
        segments: nn.Parameter | None = None,
        norm: nn.LayerNorm | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight  # (vocabulary, D)
        self.positions = positions
        self.segments = segments  # (kinds of segment, D)
        self.norm = norm if norm is not None else nn.Identity()
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.size(1)) if scale is None else scale

    def forward(self, tokens: Tensor, start: int = 0, segments: Tensor | None = None) -> Tensor:
        """Tokens (B, L), and the segment of each (B, L) → (B, L, D); the first token stands at position `start`.

        Without `segments` every token is of segment 0.
        """
        x = nn.functional.embedding(tokens, self.weight)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.size(1), start).to(x.dtype)
        if self.segments is not None:
            x = x + (self.segments[0] if segments is None else nn.functional.embedding(segments, self.segments))
        return self.dropout(self.norm(x))
