"""The decoder layer and the stack of N of them (Section 3.1).

Shapes: B batch, L source length, T target length, D d_model. Masks are boolean; True may attend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from heedful.nn.attention.base import AttentionWeights
from heedful.nn.cache import KeyValueCache, SourceKeys
from heedful.nn.feedforward import FeedForward
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.residual import Residual
from heedful.nn.trace import LayerOutputs


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention over the encoder's output, feed-forward, each in a residual connection."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_cross, self.around_feed = residual(), residual(), residual()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | SourceKeys,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, AttentionWeights, AttentionWeights]:
        """x (B, T, D), memory (B, L, D), mask (B, T), memory_mask (B, L) → (B, T, D).

        When asked for, the weights of self-attention (B, H, T, T) and of cross-attention (B, H, T, L) are returned too.
        """
        y = self.around_self.before(x)
        y = self.self_attention(y, mask=mask, causal=True, cache=cache, return_weights=return_weights)
        y, self_weights = y if return_weights else (y, None)
        x = self.around_self.after(x, y)
        y = self.around_cross.before(x)
        y = self.cross_attention(y, memory, mask=memory_mask, return_weights=return_weights)
        y, cross_weights = y if return_weights else (y, None)
        x = self.around_cross.after(x, y)
        x = self.around_feed(x, self.feed_forward)
        return x if self_weights is None or cross_weights is None else (x, self_weights, cross_weights)


class Decoder(nn.Module):
    """N decoder layers; with pre-norm, one more LayerNorm at the end."""

    def __init__(self, layers: Sequence[DecoderLayer], final_norm: nn.LayerNorm | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm if final_norm is not None else nn.Identity()

    def source_keys(self, memories: Sequence[Tensor]) -> list[SourceKeys]:
        """One memory (B, L, D) per layer → its keys and values there, for decoding step by step."""
        layers = [layer for layer in self.layers if isinstance(layer, DecoderLayer)]
        return [layer.cross_attention.source_keys(memory) for layer, memory in zip(layers, memories, strict=True)]

    def forward(
        self,
        x: Tensor,
        memories: Sequence[Tensor] | Sequence[SourceKeys],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: Sequence[KeyValueCache] | None = None,
        return_layers: bool = False,
    ) -> Tensor | tuple[Tensor, LayerOutputs]:
        """x (B, T, D), one memory (B, L, D) per layer, mask (B, T), memory_mask (B, L) → states (B, T, D).

        When asked for, what every layer computed is returned too.
        """
        outputs = LayerOutputs([x])
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            if return_layers:
                x, weights, cross_weights = layer(x, memories[index], mask, memory_mask, cache, return_weights=True)
                outputs.hidden.append(x)
                outputs.self_attention.append(weights)
                outputs.cross_attention.append(cross_weights)
            else:
                x = layer(x, memories[index], mask, memory_mask, cache)
        states: Tensor = self.norm(x)
        return (states, outputs) if return_layers else states


class LayerMix(nn.Module):
    """A learned convex combination of all encoder layers, for one decoder layer to attend to."""

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
