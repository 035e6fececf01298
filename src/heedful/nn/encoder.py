"""The encoder layer and the stack of N of them (Section 3.1).

Shapes: B batch, L length, D d_model. Masks are boolean; True may attend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor, nn

from heedful.nn.attention.base import AttentionWeights
from heedful.nn.attention.kinds import AttentionSettings
from heedful.nn.cache import KeyValueCache
from heedful.nn.feedforward import Activation, FeedForward
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import AttentionPositions
from heedful.nn.residual import Norm, Residual
from heedful.nn.trace import LayerOutputs


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual connection."""

    def __init__(self, self_attention: MultiHeadAttention, feed_forward: FeedForward, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_self, self.around_feed = residual(), residual()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """x (B, L, D), mask (B, L) → (B, L, D), and the attention weights when asked for.

        With a cache, x continues the positions it holds. `global_mask` (B, L): see `MultiHeadAttention`.
        """
        y = self.around_self.before(x)
        y = self.self_attention(y, mask=mask, causal=causal, cache=cache, return_weights=return_weights, global_mask=global_mask)
        y, weights = y if return_weights else (y, None)
        x = self.around_feed(self.around_self.after(x, y), self.feed_forward)
        return x if weights is None else (x, weights)


class Encoder(nn.Module):
    """N encoder layers; with pre-norm, one more LayerNorm at the end. A causal encoder is the decoder-only Transformer."""

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
        return_layers: bool = False,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, LayerOutputs]:
        """x (B, L, D), mask (B, L) → states (B, L, D), and what every layer computed when asked for.

        With caches, one per layer, x continues the positions they hold. `global_mask` (B, L): see `MultiHeadAttention`.
        """
        outputs = LayerOutputs([x])
        for index, layer in enumerate(self.layers):
            cache = caches[index] if caches else None
            if return_layers:
                x, weights = layer(x, mask, causal, cache, return_weights=True, global_mask=global_mask)
                outputs.hidden.append(x)
                outputs.self_attention.append(weights)
            else:
                x = layer(x, mask, causal, cache, global_mask=global_mask)
        states: Tensor = self.norm(x)
        return (states, outputs) if return_layers else states

    @property
    def longest(self) -> int | None:
        """The longest sequence that the attention has parameters for; None if there is no limit."""
        limits = [layer.self_attention.attend.longest for layer in self.layers if isinstance(layer, EncoderLayer)]
        return min((limit for limit in limits if limit is not None), default=None)

    def all_layers(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """The output of every layer, each after the final LayerNorm."""
        outputs = []
        for layer in self.layers:
            x = layer(x, mask)
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
    attention: AttentionSettings | None = None,
) -> Encoder:
    """A new stack of encoder layers; `positions` creates the positions of each self-attention, `attention` is its kind."""

    def layer(number: int) -> EncoderLayer:
        kind = replace(attention or AttentionSettings(), layer=number)
        attend = MultiHeadAttention(d_model, heads, dropout=attention_dropout, positions=positions(), settings=kind)
        feed_forward = FeedForward(d_model, d_ff, activation)
        return EncoderLayer(attend, feed_forward, lambda: Residual(d_model, dropout, norm, epsilon))

    return Encoder([layer(number) for number in range(layers)], nn.LayerNorm(d_model, epsilon) if norm == "pre" else None)
