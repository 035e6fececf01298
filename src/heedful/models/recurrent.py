"""The recurrent encoder–decoder that the paper's model replaced (SPEC 1), to be trained and used in its place.

Shapes: B batch, L source length, T target length, D d_model, N layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.pairs import EmbeddingStart, PairModel, Tie, check_tie, pair_matrices
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.recurrent import Cell, RecurrentDecoder, RecurrentEncoder, RecurrentState, Score
from heedful.settings import Layers, Share, Vocabulary, Width, check_fields, setting


@dataclass(frozen=True)
class RecurrentConfig:
    """Every setting of a recurrent encoder–decoder."""

    source_vocab: Vocabulary
    target_vocab: Vocabulary
    cell: Cell = setting("gru", "`gru` or `lstm`")
    attention: Score = setting(
        "additive", "how a decoder state scores an encoder state; with `none` only the encoder's final state is passed on"
    )
    layers: Layers = setting(1, "of the encoder, and of the decoder")
    d_model: Width = setting(256, "width of embeddings and states")
    bidirectional: bool = setting(True, "the encoder: half of d_model reads from the left, half from the right")
    dropout: Share = setting(0.1, "after embeddings and states")
    tie: Tie = setting("none", "which embeddings share a matrix with the output: `all`, `target` or `none`")
    embedding_start: EmbeddingStart = setting("xavier", "of fresh embeddings: `xavier` (uniform), or `normal`, larger")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.bidirectional and self.d_model % 2:
            raise UsageError(f"bidirectional gives each direction half of d_model: {self.d_model} must be even")
        check_tie(self)


class Recurrent(PairModel):
    """A recurrent encoder that reads the source and a recurrent decoder that writes the target; used like `Seq2Seq`."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = c = config
        source, target, output = pair_matrices(c)
        # Reading one token after the other tells the position by itself.
        self.source_embedding = TokenEmbedding(source, None, c.dropout)
        self.target_embedding = TokenEmbedding(target, None, c.dropout)
        self.encoder = RecurrentEncoder(c.cell, c.d_model, c.layers, c.bidirectional)
        self.decoder = RecurrentDecoder(c.cell, c.d_model, c.layers, c.attention, c.dropout)
        self.output_weight = output  # (target_vocab, D)
        self.output_bias = nn.Parameter(torch.zeros(c.target_vocab))

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, L) tokens → encoder states (B, L, D) and the final state of every layer (N, B, D).

        Padding stands on the right, and every source has at least one token, its end.
        """
        return self.encoder(self.source_embedding(source), source_mask)

    def decode(self, target: Tensor, state: RecurrentState) -> Tensor:
        """(B, T) tokens, shifted right → states (B, T, D) that predict the next token of each position."""
        return self.decoder(self.target_embedding(target), state)

    def states(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """The states (B, T, D) for a source and the target before it.

        `target_mask` changes nothing: padding stands on the right, where no real position has read it yet.
        """
        return self.decode(target, self.start(source, source_mask))

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> RecurrentState:
        """Encode once, ready for `step`."""
        mask = None if source_mask is None else source_mask.bool()
        return self.decoder.start(*self.encode(source, mask), mask)

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """The newest tokens (B, n) → logits (B, target_vocab) of what follows; `state` grows by n positions."""
        return self.project(self.decode(tokens, state)[:, -1])
