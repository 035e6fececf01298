"""The decoder-only language model GPT (SPEC 16): causal self-attention alone, each token predicted from those before it.

Shapes: B batch, L length, D d_model. With its defaults the mathematics is GPT-2's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.checks import check_heads
from heedful.models.model import STD, Model, initialise_normal
from heedful.nn.attention import KeyValueCache
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.feedforward import Activation
from heedful.nn.layers import build_encoder
from heedful.nn.positions import PositionKind, absolute_positions, attention_positions
from heedful.nn.residual import Norm
from heedful.settings import Epsilon, Layers, Positions, Share, Vocabulary, Width, check_fields, setting


@dataclass(frozen=True)
class GPTConfig:
    """Every setting of a GPT; the defaults are the smallest GPT-2."""

    vocab: Vocabulary
    layers: Layers = setting(12, "decoder layers")
    d_model: Width = setting(768, "width of the residual stream")
    d_ff: Width = setting(3072, "width of the feed-forward network")
    heads: Width = setting(12, "attention heads")
    context: Positions = setting(1024, "positions kept while writing, and the most that learned positions know")
    dropout: Share = setting(0.1, "after embeddings and sub-layers")
    attention_dropout: Share = setting(0.0, "of attention weights")
    activation: Activation = setting("gelu-tanh", "of the feed-forward network")
    norm: Norm = setting("pre", "LayerNorm before (`pre`) or after (`post`) each sub-layer")
    epsilon: Epsilon = setting(1e-5, "of every LayerNorm")
    positions: PositionKind = setting("learned", "how the model knows the order of tokens")
    max_distance: Width = setting(32, "of relative positions")
    tie: bool = setting(True, "one matrix for the embedding and the output")

    def __post_init__(self) -> None:
        check_fields(self)
        check_heads(self.d_model, self.heads)
        if self.positions == "rotary" and self.d_model // self.heads % 2:
            raise UsageError(f"rotary positions turn pairs of features: d_k {self.d_model // self.heads} must be even")


class TokenBatch(Protocol):
    """Tokens, what follows each of them, and which of these are to be learned: (B, L) each, padded on the right."""

    @property
    def tokens(self) -> Tensor: ...

    @property
    def targets(self) -> Tensor: ...

    @property
    def mask(self) -> Tensor: ...


class GPTState:
    """What writing carries from step to step: the tokens (B, n) the model still sees, and every layer's keys and values."""

    def __init__(self, rows: int, layers: int, device: torch.device) -> None:
        self.tokens = torch.zeros(rows, 0, dtype=torch.long, device=device)
        self.caches = [KeyValueCache() for _ in range(layers)]

    @property
    def length(self) -> int:
        """Positions already seen, at most the model's context."""
        return self.tokens.size(1)

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order. A prompt is part of the text, so `sources` changes nothing."""
        self.tokens = self.tokens.index_select(0, rows)
        for cache in self.caches:
            cache.select(rows)


class GPT(Model):
    """A language model: embeddings, a causal encoder, and a projection to the vocabulary without a bias."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = c = config
        weight = nn.Parameter(torch.empty(c.vocab, c.d_model))
        self.embedding = TokenEmbedding(weight, absolute_positions(c.positions, c.d_model, c.context), c.dropout, scale=1.0)
        self.encoder = build_encoder(
            c.layers,
            c.d_model,
            c.d_ff,
            c.heads,
            dropout=c.dropout,
            attention_dropout=c.attention_dropout,
            activation=c.activation,
            norm=c.norm,
            epsilon=c.epsilon,
            positions=lambda: attention_positions(c.positions, c.heads, c.d_model // c.heads, c.max_distance),
        )
        self.output_weight = weight if c.tie else nn.Parameter(torch.empty(c.vocab, c.d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """GPT-2's initialisation. Small embeddings make small first logits, so that the loss starts at log(vocab)."""
        initialise_normal(self)
        # Each of 2·layers sub-layers adds to the residual stream; scaled so, their sum does not grow with the depth.
        for name, parameter in self.encoder.named_parameters():
            if name.endswith("project_out.weight"):
                nn.init.normal_(parameter, std=STD / math.sqrt(2 * self.config.layers))

    def states(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L), mask (B, L) → states (B, L, D) that predict the next token of each position."""
        if self.config.positions == "learned" and tokens.size(1) > self.config.context:
            raise UsageError(f"{tokens.size(1)} tokens are longer than the model's context of {self.config.context}")
        return self.encoder(self.embedding(tokens), mask, causal=True)

    def project(self, states: Tensor) -> Tensor:
        """States (…, D) → logits (…, vocab)."""
        return nn.functional.linear(states, self.output_weight)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L), mask (B, L) → log-probabilities (B, L, vocab) of the token after each."""
        return self.project(self.states(tokens, mask)).log_softmax(-1)

    def training_states(self, batch: TokenBatch) -> tuple[Tensor, Tensor, None, Tensor]:
        """What a loss over the vocabulary needs: states (N, D) of the positions to learn, output weight, no bias, and
        the N right answers."""
        # Padding stands at the right end, where causal attention already hides it from real positions.
        states = self.states(batch.tokens)
        return states[batch.mask], self.output_weight, None, batch.targets[batch.mask]

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> GPTState:
        """Read the prompts (B, n), which may be empty, ready for `step`; those of one batch are equally long."""
        if source_mask is not None and not bool(source_mask.all()):
            raise UsageError("the prompts of one batch must be equally long: a GPT reads no padding before it writes")
        state = GPTState(source.size(0), self.config.layers, source.device)
        if source.size(1):
            self.extend(source, state)
        return state

    def step(self, tokens: Tensor, state: GPTState) -> Tensor:
        """The newest tokens (B, n) → logits (B, vocab) of what follows; `state` grows by n positions.

        When that is more than the context holds, the model reads the last half of a context anew and goes on from
        there, so a text may have any length.
        """
        return self.project(self.extend(tokens, state)[:, -1])

    def extend(self, tokens: Tensor, state: GPTState) -> Tensor:
        """Read new tokens (B, n) and remember them; the states of those that were read (B, ≤ n or half a context, D)."""
        start = state.length
        state.tokens = torch.cat([state.tokens, tokens], dim=1)
        if state.length > self.config.context:
            # Half, not all but one: the next rebuilding is then half a context away instead of at every step.
            start, tokens = 0, state.tokens[:, -max(1, self.config.context // 2) :]
            state.tokens = tokens
            state.caches = [KeyValueCache() for _ in state.caches]
        return self.encoder(self.embedding(tokens, start), causal=True, caches=state.caches)
