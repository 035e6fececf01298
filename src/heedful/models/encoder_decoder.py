"""What all encoder–decoders share, Transformer or recurrent: vocabularies, states, and the projection to logits (Section 3.4).

Shapes: B batch, L source length, T target length, D d_model.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.model import Model
from heedful.nn.embeddings import EmbeddingStart, Tie
from heedful.nn.fast.linear import linear_map
from heedful.nn.trace import Trace


class EncoderDecoderConfig(Protocol):
    """The settings that every encoder–decoder has."""

    @property
    def source_vocab(self) -> int: ...

    @property
    def target_vocab(self) -> int: ...

    @property
    def d_model(self) -> int: ...

    @property
    def tie(self) -> Tie: ...

    @property
    def embedding_start(self) -> EmbeddingStart: ...


def check_tie(config: EncoderDecoderConfig) -> None:
    """One matrix for source and target needs one joint vocabulary."""
    if config.tie == "all" and config.source_vocab != config.target_vocab:
        raise UsageError(
            f"tie=all needs one joint vocabulary, but the source has {config.source_vocab} tokens and the target "
            f"{config.target_vocab}; use tie=target"
        )


class PairBatch(Protocol):
    """Padded sources (B, L) and targets (B, T)."""

    @property
    def source(self) -> Tensor: ...

    @property
    def source_mask(self) -> Tensor: ...

    @property
    def target_in(self) -> Tensor: ...

    @property
    def target_out(self) -> Tensor: ...

    @property
    def target_mask(self) -> Tensor: ...


class EncoderDecoder(Model):
    """Encodes a source and decodes a target. A subclass defines `states` and sets `output_weight` and `output_bias`."""

    output_weight: nn.Parameter  # (target_vocab, D)
    output_bias: nn.Parameter  # (target_vocab,)

    @abstractmethod
    def states(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Final decoder states (B, T, D) for source tokens (B, L) and target tokens (B, T), shifted right."""

    @abstractmethod
    def trace(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Trace:
        """The same as `states`, with attention weights and hidden states of every layer."""

    @property
    def output(self) -> tuple[Tensor, Tensor]:
        """Weight (target_vocab, D) and bias of the projection to logits."""
        return self.output_weight, self.output_bias

    def project(self, states: Tensor) -> Tensor:
        """States (…, D) → logits (…, target_vocab)."""
        return linear_map(states, self.output_weight, self.output_bias)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, L) and (B, T), masks of the same shapes → log-probabilities (B, T, target_vocab)."""
        return self.project(self.states(source, target, source_mask, target_mask)).log_softmax(-1)

    def training_states(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of the loss: states (N, D) of the N real target positions, output weight, output bias, and the
        target tokens (N,). Padding ends here."""
        # Padding is at the right end of a target, where causal attention hides it from real positions.
        states = self.states(batch.source, batch.target_in, batch.source_mask)
        mask = batch.target_mask
        return states[mask], self.output_weight, self.output_bias, batch.target_out[mask]
