"""The recurrent encoder–decoder that the Transformer replaced, a baseline that trains and decodes like it.

Shapes: B batch, L source length, T target length, D d_model, N layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.encoder_decoder import EncoderDecoder, check_tie
from heedful.nn.attention.base import AttentionWeights
from heedful.nn.embeddings import EmbeddingStart, Tie, TokenEmbedding, tied_matrices
from heedful.nn.initialisation import Init, initialise
from heedful.nn.recurrent import Cell, RecurrentDecoder, RecurrentEncoder, RecurrentState, Score
from heedful.nn.trace import Part, Trace
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
    layers: Layers = setting(1, "layers of the encoder, and of the decoder")
    d_model: Width = setting(256, "width of embeddings and states")
    bidirectional: bool = setting(True, "the encoder: half of d_model runs left to right, half right to left")
    dropout: Share = setting(0.1, "after embeddings and states")
    tie: Tie = setting("none", "which embeddings share a matrix with the output: `all`, `target` or `none`")
    embedding_start: EmbeddingStart = setting(
        "xavier", "initialisation of embeddings: `xavier` (as `init` says), or `normal`, which is larger"
    )
    init: Init = setting("xavier-uniform", "initialisation of matrices, with variance 2/(n_in + n_out), 1/n_in, 2/n_in or 0.02²")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.bidirectional and self.d_model % 2:
            raise UsageError(f"bidirectional gives each direction half of d_model: {self.d_model} must be even")
        check_tie(self)


class Recurrent(EncoderDecoder):
    """A recurrent encoder and a recurrent decoder; used like `Seq2Seq`."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = c = config
        source, target, output = tied_matrices(c.source_vocab, c.target_vocab, c.d_model, c.tie, c.embedding_start)
        # No positions: the cells process the tokens in order.
        self.source_embedding = TokenEmbedding(source, None, c.dropout)
        self.target_embedding = TokenEmbedding(target, None, c.dropout)
        self.encoder = RecurrentEncoder(c.cell, c.d_model, c.layers, c.bidirectional)
        self.decoder = RecurrentDecoder(c.cell, c.d_model, c.layers, c.attention, c.dropout)
        self.output_weight = output  # (target_vocab, D)
        self.output_bias = nn.Parameter(torch.zeros(c.target_vocab))
        if c.init != "xavier-uniform":  # that of every part of it when it is made
            initialise(self, c.init, keep=[source, target, output] if c.embedding_start == "normal" else [])

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Tokens (B, L) → encoder states (B, L, D) and the final state of every layer (N, B, D).

        Padding is on the right, and every source has at least one token, its end.
        """
        states, finals = self.encoder(self.source_embedding(source), source_mask)
        return states, finals

    def decode(self, target: Tensor, state: RecurrentState) -> Tensor:
        """Tokens (B, T), shifted right → states (B, T, D), from which the token after each is predicted."""
        states: Tensor = self.decoder(self.target_embedding(target), state)
        return states

    def states(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """See `EncoderDecoder.states`. `target_mask` has no effect: padding is on the right, after all real positions."""
        return self.decode(target, self.start(source, source_mask))

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Trace:
        """See `EncoderDecoder.trace`; "cross" is the only attention. Hidden states of the decoder: see `RecurrentDecoder`."""
        mask = None if source_mask is None else source_mask.bool()
        memory, finals, encoder = self.encoder(self.source_embedding(source), mask, return_layers=True)
        state = self.decoder.start(memory, finals, mask)
        states, decoder = self.decoder(self.target_embedding(target), state, return_layers=True)
        attention: dict[Part, list[AttentionWeights]] = {"cross": decoder.cross_attention} if decoder.cross_attention else {}
        return Trace(states, attention, {"encoder": encoder.hidden, "decoder": decoder.hidden})

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> RecurrentState:
        """Encode the source once; the state that `step` continues."""
        mask = None if source_mask is None else source_mask.bool()
        return self.decoder.start(*self.encode(source, mask), mask)

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        """The newest tokens (B, n) → logits (B, target_vocab) of the next token; `state` advances by n positions."""
        return self.project(self.decode(tokens, state)[:, -1])
