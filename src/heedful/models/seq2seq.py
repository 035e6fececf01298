"""The encoder–decoder of the paper (SPEC 8, 9), its settings, and `make_model`.

Shapes: B batch, L source length, T target length, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.feedforward import ACTIVATIONS, FeedForward
from heedful.nn.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, LayerCache, LayerMix
from heedful.nn.positions import POSITIONS, absolute_positions, attention_positions
from heedful.nn.residual import NORMS, Residual

TIES = ("all", "target", "none")
READS = ("last", "layerwise", "mix")


@dataclass(frozen=True)
class Seq2SeqConfig:
    """Every setting of an encoder–decoder; the defaults are the paper's base model."""

    source_vocab: int
    target_vocab: int
    layers: int = 6
    decoder_layers: int | None = None  # None: as many as the encoder's
    d_model: int = 512
    d_ff: int = 2048
    heads: int = 8
    d_k: int | None = None  # None: d_model / heads
    d_v: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    norm: str = "post"  # post (the paper) or pre
    positions: str = "sinusoidal"
    max_positions: int = 1024  # of learned positions
    max_distance: int = 32  # of relative positions
    tie: str = "all"  # which embeddings share a matrix with the output: all, target or none
    reads: str = "last"  # which encoder layers the decoder reads: last, layerwise or mix

    def __post_init__(self) -> None:
        for name in ("source_vocab", "target_vocab", "layers", "d_model", "d_ff", "heads", "max_positions", "max_distance"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("decoder_layers", "d_k", "d_v"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UsageError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        choices = {"activation": tuple(ACTIVATIONS), "norm": NORMS, "positions": POSITIONS, "tie": TIES, "reads": READS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} must be one of {', '.join(allowed)}, not '{getattr(self, name)}'")
        if (self.d_k is None or self.d_v is None) and self.d_model % self.heads:
            raise UsageError(f"d_model {self.d_model} is not divisible by heads {self.heads}")
        if self.positions == "rotary" and self.key_width % 2:
            raise UsageError(f"rotary positions turn pairs of features: d_k {self.key_width} must be even")
        if self.tie == "all" and self.source_vocab != self.target_vocab:
            raise UsageError(
                f"tie=all needs one joint vocabulary, but the source has {self.source_vocab} tokens and the target "
                f"{self.target_vocab}; use tie=target"
            )
        if self.reads == "layerwise" and self.depth != self.layers:
            raise UsageError(f"reads=layerwise needs as many decoder layers ({self.depth}) as layers ({self.layers})")

    @property
    def depth(self) -> int:
        """Decoder layers."""
        return self.decoder_layers or self.layers

    @property
    def key_width(self) -> int:
        """d_k of every head."""
        return self.d_k or self.d_model // self.heads


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


class DecodingState:
    """What decoding carries from step to step: the encoder's output and every layer's keys and values."""

    def __init__(self, memories: list[Tensor], memory_mask: Tensor | None) -> None:
        self.memories = memories
        self.memory_mask = memory_mask
        self.caches = [LayerCache() for _ in memories]

    @property
    def length(self) -> int:
        """Target positions already decoded."""
        return self.caches[0].past.length

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order; `sources=False` when every row keeps its source sentence."""
        for cache in self.caches:
            cache.past.select(rows)
            if sources:
                cache.source.select(rows)
        if sources:
            shared = {id(memory): memory for memory in self.memories}
            kept = {key: memory.index_select(0, rows) for key, memory in shared.items()}
            self.memories = [kept[id(memory)] for memory in self.memories]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, rows)


class Seq2Seq(nn.Module):
    """An encoder that reads the source and a decoder that writes the target, one token after the other."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = c = config

        def attend(in_self: bool) -> MultiHeadAttention:
            positions = attention_positions(c.positions, c.heads, c.key_width, c.max_distance) if in_self else None
            return MultiHeadAttention(c.d_model, c.heads, c.d_k, c.d_v, c.attention_dropout, positions)

        def feed() -> FeedForward:
            return FeedForward(c.d_model, c.d_ff, c.activation)

        def wrap() -> Residual:
            return Residual(c.d_model, c.dropout, c.norm)

        def final_norm() -> nn.LayerNorm | None:
            return nn.LayerNorm(c.d_model) if c.norm == "pre" else None

        def embed(weight: nn.Parameter) -> TokenEmbedding:
            return TokenEmbedding(weight, absolute_positions(c.positions, c.d_model, c.max_positions), c.dropout)

        output = new_matrix(c.target_vocab, c.d_model)
        target = output if c.tie in ("all", "target") else new_matrix(c.target_vocab, c.d_model)
        source = output if c.tie == "all" else new_matrix(c.source_vocab, c.d_model)
        self.source_embedding, self.target_embedding = embed(source), embed(target)
        self.encoder = Encoder([EncoderLayer(attend(True), feed(), wrap) for _ in range(c.layers)], final_norm())
        self.decoder = Decoder([DecoderLayer(attend(True), attend(False), feed(), wrap) for _ in range(c.depth)], final_norm())
        self.mixes = nn.ModuleList(LayerMix(c.layers) for _ in range(c.depth if c.reads == "mix" else 0))
        self.output_weight = output  # (target_vocab, D)
        self.output_bias = nn.Parameter(torch.zeros(c.target_vocab))

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> list[Tensor]:
        """(B, L) tokens → what each decoder layer reads, (B, L, D) each."""
        x = self.source_embedding(source)
        if self.config.reads == "last":
            return [self.encoder(x, source_mask)] * self.config.depth
        layers = self.encoder.all_layers(x, source_mask)
        return layers if self.config.reads == "layerwise" else [mix(layers) for mix in self.mixes]

    def decode(
        self,
        target: Tensor,
        memories: list[Tensor],
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """(B, T) tokens, shifted right → states (B, T, D) that predict the next token of each position."""
        return self.decoder(self.target_embedding(target), memories, target_mask, source_mask)

    def states(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """The decoder's last states (B, T, D) for a source and the target before it."""
        return self.decode(target, self.encode(source, source_mask), source_mask, target_mask)

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
        # Padding stands at the right end of a target, where causal attention already hides it from real positions.
        states = self.states(batch.source, batch.target_in, batch.source_mask)
        mask = batch.target_mask
        return states[mask], self.output_weight, self.output_bias, batch.target_out[mask]

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> DecodingState:
        """Encode once, ready for `step`."""
        return DecodingState(self.encode(source, source_mask), source_mask)

    def step(self, tokens: Tensor, state: DecodingState) -> Tensor:
        """The newest tokens (B, n) → logits (B, target_vocab) of what follows; `state` grows by n positions."""
        x = self.target_embedding(tokens, state.length)
        states = self.decoder(x, state.memories, None, state.memory_mask, state.caches)
        return self.project(states[:, -1])

    def parameters_by_part(self) -> dict[str, int]:
        """How many parameters each part has; a shared matrix counts once, where it first stands."""
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = name.split(".")[0]
            counts[part] = counts.get(part, 0) + parameter.numel()
        return counts


def new_matrix(vocabulary: int, d_model: int) -> nn.Parameter:
    """An embedding matrix, Xavier uniform."""
    weight = nn.Parameter(torch.empty(vocabulary, d_model))
    nn.init.xavier_uniform_(weight)
    return weight


def make_model(input_vocab: int, output_vocab: int, d_model: int = 512, *, tie: str = "none", **settings: Any) -> Seq2Seq:
    """A ready encoder–decoder with fresh weights.

    >>> model = make_model(input_vocab=10, output_vocab=10)
    >>> src = torch.tensor([[1, 2, 3, 4, 5]]); src_mask = torch.tensor([[1, 1, 1, 1, 1]])
    >>> tgt = torch.tensor([[6, 7, 8, 0, 0]]); tgt_mask = torch.tensor([[1, 1, 1, 0, 0]])
    >>> model(src, tgt, src_mask, tgt_mask).argmax(dim=-1).shape
    torch.Size([1, 5])
    """
    return Seq2Seq(Seq2SeqConfig(input_vocab, output_vocab, d_model=d_model, tie=tie, **settings))
