"""What every encoder–decoder shares, whatever it is built of: embeddings that may be one matrix, and the output (SPEC 8, 9).

Shapes: B batch, L source length, T target length, D d_model.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.model import Model

Tie = Literal["all", "target", "none"]
EmbeddingStart = Literal["xavier", "normal"]


def check_tie(config: Any) -> None:
    """One matrix for all needs one vocabulary."""
    if config.tie == "all" and config.source_vocab != config.target_vocab:
        raise UsageError(
            f"tie=all needs one joint vocabulary, but the source has {config.source_vocab} tokens and the target "
            f"{config.target_vocab}; use tie=target"
        )


def new_matrix(vocabulary: int, d_model: int, start: EmbeddingStart) -> nn.Parameter:
    """An embedding matrix: Xavier uniform, or normal with a deviation of 1/√D, which × √D is as large as the positions."""
    weight = nn.Parameter(torch.empty(vocabulary, d_model))
    if start == "normal":
        nn.init.normal_(weight, std=d_model**-0.5)
    else:
        nn.init.xavier_uniform_(weight)
    return weight


def pair_matrices(config: Any) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter]:
    """The matrices of the source embedding, the target embedding and the output, shared as `tie` says."""
    width, start = config.d_model, config.embedding_start
    output = new_matrix(config.target_vocab, width, start)
    target = output if config.tie in ("all", "target") else new_matrix(config.target_vocab, width, start)
    source = output if config.tie == "all" else new_matrix(config.source_vocab, width, start)
    return source, target, output


class PairBatch(Protocol):
    """Sources and targets as padded tensors, (B, L) and (B, T)."""

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


class PairModel(Model):
    """Reads a source and writes a target. A subclass gives the states, and sets `output_weight` and `output_bias`."""

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
        """The decoder's last states (B, T, D) for a source and the target before it."""

    def project(self, states: Tensor) -> Tensor:
        """States (…, D) → logits (…, target_vocab)."""
        return nn.functional.linear(states, self.output_weight, self.output_bias)

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
        """What a loss over the vocabulary needs: states (N, D) of the real target positions, output weight and bias,
        and the N right answers. Padding goes no further than here."""
        # Padding stands at the right end of a target, where no real position has seen it yet.
        states = self.states(batch.source, batch.target_in, batch.source_mask)
        mask = batch.target_mask
        return states[mask], self.output_weight, self.output_bias, batch.target_out[mask]
