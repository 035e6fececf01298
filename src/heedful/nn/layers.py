"""Encoder and decoder layers, and the stacks of them (SPEC 9).

Shapes: B batch, L source length, T target length, D d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from heedful.nn.attention import KeyValueCache, MultiHeadAttention
from heedful.nn.feedforward import Activation, FeedForward
from heedful.nn.masks import over_keys
from heedful.nn.positions import AttentionPositions
from heedful.nn.residual import Norm, Residual

Wrap = Callable[[], Residual]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual."""

    def __init__(self, self_attention: MultiHeadAttention, feed_forward: FeedForward, wrap: Wrap) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_feed = wrap(), wrap()

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False, cache: KeyValueCache | None = None) -> Tensor:
        """x (B, L, D); mask broadcasts to (B, H, L, L). With a cache, x follows what it holds."""
        x = self.around_self(x, lambda y: self.self_attention(y, mask=mask, causal=causal, cache=cache))
        return self.around_feed(x, self.feed_forward)


class LayerCache:
    """What one decoder layer remembers between steps: its own past, and the projected source."""

    def __init__(self) -> None:
        self.past, self.source = KeyValueCache(), KeyValueCache()


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over the encoder's output, feed-forward."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        wrap: Wrap,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_cross, self.around_feed = wrap(), wrap(), wrap()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """x (B, T, D), memory (B, L, D); the masks broadcast to (B, H, T, T) and (B, H, T, L)."""
        past, source = (cache.past, cache.source) if cache else (None, None)
        x = self.around_self(x, lambda y: self.self_attention(y, mask=mask, causal=True, cache=past))
        x = self.around_cross(x, lambda y: self.cross_attention(y, memory, mask=memory_mask, cache=source))
        return self.around_feed(x, self.feed_forward)


class Encoder(nn.Module):
    """N encoder layers; pre-norm stacks end with one more LayerNorm. Causal, it is all that a language model needs."""

    def __init__(self, layers: Sequence[EncoderLayer], final_norm: nn.LayerNorm | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm if final_norm is not None else nn.Identity()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        caches: Sequence[KeyValueCache] | None = None,
    ) -> Tensor:
        """x (B, L, D), mask (B, L) → the last layer (B, L, D); with caches, one a layer, x follows what they hold."""
        for index, layer in enumerate(self.layers):
            x = layer(x, over_keys(mask), causal, caches[index] if caches else None)
        return self.norm(x)

    def all_layers(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """The output of every layer, normalised like the last."""
        outputs = []
        for layer in self.layers:
            x = layer(x, over_keys(mask))
            outputs.append(self.norm(x))
        return outputs


def build_encoder(
    layers: int,
    d_model: int,
    d_ff: int,
    heads: int,
    *,
    dropout: float,
    attention_dropout: float,
    activation: Activation,
    norm: Norm,
    epsilon: float,
    positions: Callable[[], AttentionPositions | None] = lambda: None,
) -> Encoder:
    """A fresh stack of encoder layers; `positions` makes what each self-attention does about them."""

    def layer() -> EncoderLayer:
        attention = MultiHeadAttention(d_model, heads, dropout=attention_dropout, positions=positions())
        feed_forward = FeedForward(d_model, d_ff, activation)
        return EncoderLayer(attention, feed_forward, lambda: Residual(d_model, dropout, norm, epsilon))

    return Encoder([layer() for _ in range(layers)], nn.LayerNorm(d_model, epsilon) if norm == "pre" else None)


class LayerMix(nn.Module):
    """One decoder layer's view of all encoder layers: a learned convex combination of them."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))

    def forward(self, layers: list[Tensor]) -> Tensor:
        """N tensors (B, L, D) → (B, L, D)"""
        weights = self.scores.softmax(0)
        mixed = layers[0] * weights[0]
        for weight, layer in zip(weights[1:], layers[1:], strict=True):
            mixed = mixed + layer * weight
        return mixed


class Decoder(nn.Module):
    """N decoder layers; pre-norm stacks end with one more LayerNorm."""

    def __init__(self, layers: Sequence[DecoderLayer], final_norm: nn.LayerNorm | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm if final_norm is not None else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memories: Sequence[Tensor],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: Sequence[LayerCache] | None = None,
    ) -> Tensor:
        """x (B, T, D), one memory (B, L, D) a layer, mask (B, T), memory_mask (B, L) → (B, T, D)."""
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            x = layer(x, memories[index], over_keys(mask), over_keys(memory_mask), cache)
        return self.norm(x)
