"""The decoder-only language model GPT: causal self-attention only, each token predicted from those before it.

With its defaults it computes the same function as GPT-2. Shapes: B batch, L length, D d_model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.attention_settings import AttentionFields, causal_kinds
from heedful.models.checks import check_heads, check_rotary
from heedful.models.model import Model
from heedful.nn.cache import KeyValueCache, join_rows
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.encoder import build_encoder
from heedful.nn.fast.linear import linear_map
from heedful.nn.feedforward import Activation
from heedful.nn.initialisation import STD, Init, initialise
from heedful.nn.positions import PositionKind, absolute_positions, attention_positions
from heedful.nn.residual import Norm
from heedful.nn.trace import Trace
from heedful.settings import Epsilon, Layers, Positions, Share, Vocabulary, Width, check_fields, setting


@dataclass(frozen=True)
class GPTConfig(AttentionFields):
    """Every setting of a GPT; the defaults are the smallest GPT-2."""

    vocab: Vocabulary
    layers: Layers = setting(12, "decoder layers")
    d_model: Width = setting(768, "width of the residual stream")
    d_ff: Width = setting(3072, "width of the feed-forward network")
    heads: Width = setting(12, "attention heads")
    context: Positions = setting(1024, "longest context in tokens, and the number of learned positions")
    dropout: Share = setting(0.1, "after embeddings and sub-layers")
    attention_dropout: Share = setting(0.0, "of attention weights")
    activation: Activation = setting("gelu-tanh", "of the feed-forward network")
    norm: Norm = setting("pre", "LayerNorm before (`pre`) or after (`post`) each sub-layer")
    epsilon: Epsilon = setting(1e-5, "of every LayerNorm")
    positions: PositionKind = setting("learned", "how the model knows the order of tokens")
    max_distance: Width = setting(32, "of relative positions")
    tie: bool = setting(True, "one matrix for the embedding and the output")
    init: Init = setting("normal-0.02", "initialisation of matrices, with variance 2/(n_in + n_out), 1/n_in, 2/n_in or 0.02²")

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_attention()
        check_heads(self.d_model, self.heads)
        check_rotary(self.positions, self.d_model // self.heads)
        self.check_causal(self.attention_kind, f"a GPT can use {', '.join(causal_kinds())}")


class TokenBatch(Protocol):
    """Tokens, the token after each, and a mask of the positions to train on: (B, L) each, padded on the right."""

    @property
    def tokens(self) -> Tensor: ...

    @property
    def targets(self) -> Tensor: ...

    @property
    def mask(self) -> Tensor: ...


class GPTState:
    """What decoding carries from step to step: the tokens (B, n) in the context, and the keys and values of every layer.

    Rows with fewer tokens than others have padding on the left, as in the caches.
    """

    def __init__(self, rows: int, layers: int, device: torch.device) -> None:
        self.tokens = torch.zeros(rows, 0, dtype=torch.long, device=device)
        self.caches = [KeyValueCache() for _ in range(layers)]

    @property
    def position(self) -> int | Tensor:
        """The position of the next token; (B,) when the rows differ."""
        return self.caches[0].position()

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order. `sources` has no effect: a prompt is part of the text."""
        for cache in self.caches:
            cache.select(rows)
        tokens = self.tokens.index_select(0, rows)
        self.tokens = tokens[:, tokens.size(1) - self.caches[0].length :]  # as many columns as the caches have

    def join(self, other: GPTState) -> None:
        """Add the rows of another state after these."""
        for cache, added in zip(self.caches, other.caches, strict=True):
            cache.join(added, self.tokens.size(0), other.tokens.size(0))
        self.tokens = join_rows(self.tokens, other.tokens, 1, on_left=True)


class GPT(Model):
    """Embeddings, a causal stack of layers, and a projection to the vocabulary without a bias."""

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
            attention=c.attention(),
        )
        self.output_weight = weight if c.tie else nn.Parameter(torch.empty(c.vocab, c.d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """By default GPT-2's: small embeddings give small initial logits, so that the loss starts near log(vocab)."""
        initialise(self, self.config.init)
        if self.config.init != "normal-0.02":
            return
        # 2 · layers sub-layers add to the residual stream; with this scale the variance of their sum is independent of depth.
        for name, parameter in self.encoder.named_parameters():
            if name.endswith("project_out.weight"):
                nn.init.normal_(parameter, std=STD / math.sqrt(2 * self.config.layers))

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (B, L) → embeddings (B, L, D); an error if there are more tokens than learned positions."""
        if self.config.positions == "learned" and tokens.size(1) > self.config.context:
            raise UsageError(f"{tokens.size(1)} tokens are longer than the model's context of {self.config.context}")
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def states(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L), mask (B, L) → states (B, L, D), from which the token after each is predicted."""
        states: Tensor = self.encoder(self.embed(tokens), mask, causal=True)
        return states

    @torch.no_grad()
    def trace(self, tokens: Tensor, mask: Tensor | None = None) -> Trace:
        """The same as `states`, with the attention weights ("decoder") and hidden states of every layer."""
        states, layers = self.encoder(self.embed(tokens), mask, causal=True, return_layers=True)
        return Trace(states, {"decoder": layers.self_attention}, {"decoder": layers.hidden})

    def project(self, states: Tensor) -> Tensor:
        """States (…, D) → logits (…, vocab)."""
        return linear_map(states, self.output_weight)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L), mask (B, L) → log-probabilities (B, L, vocab) of the token after each."""
        return self.project(self.states(tokens, mask)).log_softmax(-1)

    def training_states(self, batch: TokenBatch) -> tuple[Tensor, Tensor, None, Tensor]:
        """The arguments of the loss: states (N, D) of the N positions to train on, output weight, no bias, and the target
        tokens (N,)."""
        # Padding is at the right end, where causal attention hides it from real positions.
        states = self.states(batch.tokens)
        return states[batch.mask], self.output_weight, None, batch.targets[batch.mask]

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> GPTState:
        """Process the prompts (B, n), all of one length, which may be 0; the state that `step` continues."""
        if source_mask is not None and not bool(source_mask.all()):
            raise UsageError("the prompts of one batch must be equally long: a GPT has no padding on the left")
        state = GPTState(source.size(0), self.config.layers, source.device)
        kept = source if source.size(1) <= self.config.context else source[:, -max(1, self.config.context // 2) :]
        if kept.size(1):
            self.extend(kept, state)
        return state

    def step(self, tokens: Tensor, state: GPTState) -> Tensor:
        """The newest tokens (B, n) → logits (B, vocab) of the next token; `state` advances by n positions.

        A text may have any length: when the context of a row is full, it starts again from the last half of it.
        """
        ends = torch.as_tensor(state.position, device=tokens.device).expand(tokens.size(0)) + tokens.size(1)
        full = ends > self.config.context  # (B,)
        if not bool(full.any()):
            return self.project(self.extend(tokens, state)[:, -1])
        # Half of it, because dropping only the oldest token would mean recomputing the cache at every step.
        text = torch.cat([state.tokens, tokens], dim=1)[full, -max(1, self.config.context // 2) :]
        restarted = GPTState(text.size(0), self.config.layers, tokens.device)
        logits = self.project(self.extend(text, restarted)[:, -1])
        others = (~full).nonzero().squeeze(-1)
        if not len(others):
            state.tokens, state.caches = restarted.tokens, restarted.caches
            return logits
        state.select(others)
        logits = torch.cat([self.project(self.extend(tokens[others], state)[:, -1]), logits])
        state.join(restarted)
        order = torch.cat([others, full.nonzero().squeeze(-1)]).argsort()  # back to the order that the rows had
        state.select(order)
        return logits[order]

    def extend(self, tokens: Tensor, state: GPTState) -> Tensor:
        """Append tokens (B, n) to the state; returns their states (B, n, D)."""
        position = state.position
        state.tokens = torch.cat([state.tokens, tokens], dim=1)
        states: Tensor = self.encoder(self.embedding(tokens, position), causal=True, caches=state.caches)
        return states
