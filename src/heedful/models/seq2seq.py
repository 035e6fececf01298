"""The Transformer of the paper (Section 3, Figure 1), its settings, and `make_model`.

Shapes: B batch, L source length, T target length, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.attention_settings import AttentionFields, causal_kinds
from heedful.models.checks import check_heads, check_reach, check_rotary
from heedful.models.encoder_decoder import EmbeddingStart, EncoderDecoder, Tie, check_tie, embedding_matrices
from heedful.nn.attention.kinds import AttentionKind, AttentionSettings
from heedful.nn.cache import KeyValueCache, SourceKeys, join_rows
from heedful.nn.decoder import Decoder, DecoderLayer, LayerMix
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.encoder import Encoder, EncoderLayer
from heedful.nn.fast.decoder import FastDecoder
from heedful.nn.feedforward import Activation, FeedForward
from heedful.nn.initialisation import Init, initialise
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import AttentionPositions, PositionKind, absolute_positions, attention_positions
from heedful.nn.residual import Norm, Residual
from heedful.nn.trace import Trace
from heedful.settings import Layers, Positions, Share, Vocabulary, Width, check_fields, setting

Reads = Literal["last", "layerwise", "mix"]


@dataclass(frozen=True)
class Seq2SeqConfig(AttentionFields):
    """Every setting of an encoder–decoder; the defaults are the paper's base model."""

    source_vocab: Vocabulary
    target_vocab: Vocabulary
    layers: Layers = setting(6, "encoder layers, and decoder layers unless `decoder_layers` says otherwise")
    decoder_layers: Layers | None = setting(None, "decoder layers; none: as many as the encoder's")
    d_model: Width = setting(512, "width of the residual stream")
    d_ff: Width = setting(2048, "width of the feed-forward network")
    heads: Width = setting(8, "attention heads")
    d_k: Width | None = setting(None, "width of a head's queries and keys; none: d_model / heads")
    d_v: Width | None = setting(None, "width of a head's values; none: d_model / heads")
    dropout: Share = setting(0.1, "after embeddings and sub-layers")
    attention_dropout: Share = setting(0.0, "of attention weights")
    activation: Activation = setting("relu", "of the feed-forward network")
    norm: Norm = setting("post", "LayerNorm after each sub-layer (`post`, the paper) or before it (`pre`)")
    positions: PositionKind = setting("sinusoidal", "how the model knows the order of tokens")
    max_positions: Positions = setting(1024, "of learned positions, and of a source with `linformer`")
    max_distance: Width = setting(32, "of relative positions")
    tie: Tie = setting("all", "which embeddings share a matrix with the output: `all`, `target` or `none`")
    scale_embedding: bool = setting(True, "token embeddings × √d_model")
    embedding_start: EmbeddingStart = setting("xavier", "of fresh embeddings: `xavier` (as `init` says), or `normal`, larger")
    init: Init = setting("xavier-uniform", "of fresh matrices: by the variance 2/(n_in + n_out), 1/n_in, 2/n_in or 0.02²")
    reads: Reads = setting("last", "which encoder layers the decoder reads: `last`, `layerwise` or `mix`")
    decoder_attention_kind: AttentionKind | None = setting(
        None, "of the decoder's self-attention; none: attention_kind. Cross-attention is always full"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_attention()
        if self.d_k is None or self.d_v is None:
            check_heads(self.d_model, self.heads)
        check_rotary(self.positions, self.key_width)
        check_tie(self)
        remedy = f"the decoder needs one: set decoder_attention_kind to {', '.join(causal_kinds())}"
        self.check_causal(self.decoder_attention_kind or self.attention_kind, remedy)
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


class DecodingState:
    """What decoding carries from step to step: in every decoder layer the keys and values of the source and of the target
    so far."""

    def __init__(self, sources: list[SourceKeys], source_mask: Tensor) -> None:
        self.sources = sources  # one per decoder layer
        self.source_mask = source_mask  # (B, L)
        self.caches = [KeyValueCache() for _ in sources]

    @property
    def position(self) -> int | Tensor:
        """The position of the next token; (B,) when the rows differ."""
        return self.caches[0].position()

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order; `sources=False` when every row keeps its source sentence."""
        for cache in self.caches:
            cache.select(rows)
        if sources:
            self.sources = [keys.select(rows) for keys in self.sources]
            self.source_mask = self.source_mask.index_select(0, rows)

    def join(self, other: DecodingState) -> None:
        """Add the rows of another state after these."""
        rows = self.source_mask.size(0), other.source_mask.size(0)
        for cache, added in zip(self.caches, other.caches, strict=True):
            cache.join(added, *rows)
        self.sources = [mine.join(added) for mine, added in zip(self.sources, other.sources, strict=True)]
        self.source_mask = join_rows(self.source_mask, other.source_mask, 1)


class Seq2Seq(EncoderDecoder):
    """The encoder–decoder Transformer."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = c = config

        def attention(
            positions: AttentionPositions | None = None, settings: AttentionSettings | None = None
        ) -> MultiHeadAttention:
            return MultiHeadAttention(c.d_model, c.heads, c.d_k, c.d_v, c.attention_dropout, positions, settings)

        def self_attention(settings: AttentionSettings, layer: int) -> MultiHeadAttention:
            positions = attention_positions(c.positions, c.heads, c.key_width, c.max_distance)
            return attention(positions, replace(settings, layer=layer))

        def feed_forward() -> FeedForward:
            return FeedForward(c.d_model, c.d_ff, c.activation)

        def residual() -> Residual:
            return Residual(c.d_model, c.dropout, c.norm)

        def final_norm() -> nn.LayerNorm | None:
            return nn.LayerNorm(c.d_model) if c.norm == "pre" else None

        def embed(weight: nn.Parameter) -> TokenEmbedding:
            positions = absolute_positions(c.positions, c.d_model, c.max_positions)
            return TokenEmbedding(weight, positions, c.dropout, scale=None if c.scale_embedding else 1.0)

        def encoder_layer(number: int) -> EncoderLayer:
            return EncoderLayer(self_attention(c.attention(max_length=c.max_positions), number), feed_forward(), residual)

        def decoder_layer(number: int) -> DecoderLayer:
            settings = c.attention(c.decoder_attention_kind)
            return DecoderLayer(self_attention(settings, number), attention(), feed_forward(), residual)

        source, target, output = embedding_matrices(c)
        self.source_embedding, self.target_embedding = embed(source), embed(target)
        self.encoder = Encoder([encoder_layer(number) for number in range(c.layers)], final_norm())
        self.decoder = Decoder([decoder_layer(number) for number in range(c.depth)], final_norm())
        self.mixes = nn.ModuleList(LayerMix(c.layers) for _ in range(c.depth if c.reads == "mix" else 0))
        self.output_weight = output  # (target_vocab, D)
        self.output_bias = nn.Parameter(torch.zeros(c.target_vocab))
        if c.init != "xavier-uniform":  # that of every part of it when it is made
            initialise(self, c.init, keep=[source, target, output] if c.embedding_start == "normal" else [])

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> list[Tensor]:
        """Tokens (B, L) → the memory (B, L, D) that each decoder layer attends to."""
        check_reach(self.encoder.longest, source.size(1), "max_positions")
        x = self.source_embedding(source)
        only_last = self.config.reads == "last"
        return self.memories([self.encoder(x, source_mask)] if only_last else self.encoder.all_layers(x, source_mask))

    def memories(self, layers: list[Tensor]) -> list[Tensor]:
        """Normalised outputs (B, L, D) of the encoder layers → the memory (B, L, D) of each decoder layer."""
        if self.config.reads == "last":
            return [layers[-1]] * self.config.depth
        return layers if self.config.reads == "layerwise" else [mix(layers) for mix in self.mixes]

    def decode(
        self,
        target: Tensor,
        memories: list[Tensor],
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, T), shifted right → states (B, T, D), from which the token after each is predicted."""
        states: Tensor = self.decoder(self.target_embedding(target), memories, target_mask, source_mask)
        return states

    def states(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """See `EncoderDecoder.states`."""
        return self.decode(target, self.encode(source, source_mask), source_mask, target_mask)

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Trace:
        """See `EncoderDecoder.trace`; the attentions are "encoder", "decoder" and "cross"."""
        _, encoder = self.encoder(self.source_embedding(source), source_mask, return_layers=True)
        memories = self.memories([self.encoder.norm(hidden) for hidden in encoder.hidden[1:]])
        x = self.target_embedding(target)
        states, decoder = self.decoder(x, memories, target_mask, source_mask, return_layers=True)
        return Trace(
            states,
            {"encoder": encoder.self_attention, "decoder": decoder.self_attention, "cross": decoder.cross_attention},
            {"encoder": encoder.hidden, "decoder": decoder.hidden},
        )

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> DecodingState:
        """Encode the source once; the state that `step` continues."""
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask.bool()
        return DecodingState(self.source_keys(source, mask), mask)

    def source_keys(self, source: Tensor, source_mask: Tensor) -> list[SourceKeys]:
        """The keys and values of a source (B, L) in each decoder layer."""
        return self.decoder.source_keys(self.encode(source, source_mask))

    @property
    def decodes_fast(self) -> bool:
        """Whether `fast_decoder` can decode with this model."""
        weight = self.output_weight
        return weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64) and FastDecoder.fits(self.decoder)

    def fast_decoder(self, beam: int) -> FastDecoder:
        """A decoder of many sentences with `beam` hypotheses each."""
        return FastDecoder(self.decoder, self.target_embedding, beam)

    def step(self, tokens: Tensor, state: DecodingState) -> Tensor:
        """The newest tokens (B, n) → logits (B, target_vocab) of the next token; `state` advances by n positions."""
        x = self.target_embedding(tokens, state.position)
        states = self.decoder(x, state.sources, None, state.source_mask, state.caches)
        return self.project(states[:, -1])


def make_model(input_vocab: int, output_vocab: int, d_model: int = 512, *, tie: Tie = "none", **settings: Any) -> Seq2Seq:
    """A ready encoder–decoder with fresh weights.

    >>> model = make_model(input_vocab=10, output_vocab=10)
    >>> src = torch.tensor([[1, 2, 3, 4, 5]]); src_mask = torch.tensor([[1, 1, 1, 1, 1]])
    >>> tgt = torch.tensor([[6, 7, 8, 0, 0]]); tgt_mask = torch.tensor([[1, 1, 1, 0, 0]])
    >>> model(src, tgt, src_mask, tgt_mask).argmax(dim=-1).shape
    torch.Size([1, 5])
    """
    return Seq2Seq(Seq2SeqConfig(input_vocab, output_vocab, d_model=d_model, tie=tie, **settings))
