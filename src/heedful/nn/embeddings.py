"""Token embeddings (Section 3.4) with their positions, and the matrices that embeddings and output may share.

For BERT, also segments and a LayerNorm.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.dropout import Dropout
from heedful.nn.positions import LearnedPositions, SinusoidalPositions

Tie = Literal["all", "target", "none"]  # which embeddings share a matrix with the output
EmbeddingStart = Literal["xavier", "normal"]


class TokenEmbedding(nn.Module):
    """Dropout(LayerNorm(scale · E[token] + position + S[segment])), with scale √D by default.

    Segments and LayerNorm are BERT's and left out by default. The matrix E may be shared with other parts of a model.
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

    def forward(self, tokens: Tensor, start: int | Tensor = 0, segments: Tensor | None = None) -> Tensor:
        """Tokens (B, L) at the positions from `start` on, and the segment of each (B, L) → (B, L, D).

        `start` may differ between rows: (B,). Without `segments`, every token belongs to segment 0.
        """
        x = nn.functional.embedding(tokens, self.weight)  # (B, L, D)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.size(1), start).to(x.dtype)
        if self.segments is not None:
            x = x + (self.segments[0] if segments is None else nn.functional.embedding(segments, self.segments))
        embedded: Tensor = self.dropout(self.norm(x))
        return embedded


def embedding_matrix(vocabulary: int, d_model: int, start: EmbeddingStart) -> nn.Parameter:
    """A new embedding matrix: Xavier uniform, or normal with standard deviation 1/√D.

    The normal one, once multiplied by √D, has the scale of the sinusoidal positions that are added to it.
    """
    weight = nn.Parameter(torch.empty(vocabulary, d_model))
    if start == "normal":
        nn.init.normal_(weight, std=d_model**-0.5)
    else:
        nn.init.xavier_uniform_(weight)
    return weight


def tied_matrices(
    source_vocab: int, target_vocab: int, d_model: int, tie: Tie, start: EmbeddingStart
) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """The matrices of source embedding, target embedding and output, shared as `tie` says (the paper shares all three)."""
    output = embedding_matrix(target_vocab, d_model, start)
    target = output if tie in ("all", "target") else embedding_matrix(target_vocab, d_model, start)
    source = output if tie == "all" else embedding_matrix(source_vocab, d_model, start)
    return source, target, output
