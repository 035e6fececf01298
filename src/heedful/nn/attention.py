"""Scaled dot-product and multi-head attention, the one place where anything attends (SPEC 2, 3).

Shapes: B batch, H heads, L length (Lq queries, Lk keys), D d_model, K d_k, V d_v. Masks are boolean; True may attend.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.masks import causal_mask
from heedful.nn.positions import AttentionPositions


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √K + bias) V, spelled out; returns the result and the weights.

    query (B, H, Lq, K), key (B, H, Lk, K), value (B, H, Lk, V); mask and bias broadcast to (B, H, Lq, Lk).
    A query that may attend to nothing gets zeros.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, Lq, Lk)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
        # softmax over a row of -inf is NaN: such a row is given finite scores first and zero weights afterwards.
        nothing = ~mask.any(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(nothing, 0.0), dim=-1).masked_fill(nothing, 0.0)
    else:
        weights = torch.softmax(scores, dim=-1)
    return F.dropout(weights, dropout) @ value, weights


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """The numbers of `attention` from PyTorch's fused kernel, which never stores the (Lq, Lk) weights.

    It computes as precisely as its arguments are: a CPU's autocast, which would make them bf16, does not count here.
    """
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)


class KeyValueCache:
    """Keys and values of the steps already decoded, for one attention; each (B, H, L, K or V)."""

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions and return all of them."""
        if self.key is not None and self.value is not None:
            key, value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value
        return key, value

    def select(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key.index_select(0, rows), self.value.index_select(0, rows)

    @property
    def length(self) -> int:
        return 0 if self.key is None else self.key.size(2)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 … head_H) W_O, head_i = Attention(Q W_Qi, K W_Ki, V W_Vi) (SPEC 3).

    W_Q, W_K and W_V stand in one matrix, so that self-attention projects with a single product.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.0,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.d_k = d_k or d_model // heads
        self.d_v = d_v or d_model // heads
        self.dropout = dropout
        self.positions = positions
        self.widths = (heads * self.d_k, heads * self.d_k, heads * self.d_v)  # of Q, K and V
        self.project_in = nn.Linear(d_model, sum(self.widths))
        self.project_out = nn.Linear(heads * self.d_v, d_model)
        self.keep_weights = False
        self.weights: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier uniform on W_Q, W_K, W_V and W_O each; biases zero."""
        for part in self.project_in.weight.split(self.widths):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.project_out.weight)
        nn.init.zeros_(self.project_in.bias)
        nn.init.zeros_(self.project_out.bias)

    def project(self, x: Tensor, start: int, end: int) -> Tensor:
        """Some of Q, K and V: (…, D) → (…, end − start).

        On a CPU in float32, even where products are in bf16: its attention is ten times slower backwards in bf16.
        """
        if end - start == self.project_in.out_features:
            projected = self.project_in(x)
        else:
            projected = F.linear(x, self.project_in.weight[start:end], self.project_in.bias[start:end])
        return projected.to(x.dtype) if x.device.type == "cpu" else projected

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, L, H·K) → (B, H, L, K)"""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a sequence to attend to: (B, Lk, D) → (B, H, Lk, K), (B, H, Lk, V)."""
        projected = self.project(memory, self.widths[0], sum(self.widths))
        key, value = projected.split(self.widths[1:], dim=-1)
        return self.split_heads(key), self.split_heads(value)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend from x (B, Lq, D) to itself, or to memory (B, Lk, D); mask broadcasts to (B, H, Lq, Lk).

        With a cache, self-attention adds x to what it holds; cross-attention projects the memory once.
        """
        start = 0
        if memory is None:
            query, key, value = (
                self.split_heads(part) for part in self.project(x, 0, sum(self.widths)).split(self.widths, dim=-1)
            )
            start = cache.length if cache else 0
            if self.positions is not None:
                query, key = self.positions.rotate(query, start), self.positions.rotate(key, start)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            query = self.split_heads(self.project(x, 0, self.widths[0]))
            if cache is None:
                key, value = self.project_memory(memory)
            elif cache.key is None or cache.value is None:
                key, value = cache.append(*self.project_memory(memory))
            else:
                key, value = cache.key, cache.value
        bias = None if self.positions is None or memory is not None else self.positions.bias(query, key.size(2), start)
        dropout = self.dropout if self.training else 0.0

        causal = causal and query.size(2) > 1  # the newest position alone may see everything before it
        fuse_causal = causal and mask is None and bias is None and start == 0
        if causal and (self.keep_weights or not fuse_causal):
            past = causal_mask(query.size(2), key.size(2), device=x.device)
            mask = past if mask is None else mask & past
        if self.keep_weights:
            heads, self.weights = attention(query, key, value, mask, bias, dropout)
        else:
            heads = fused_attention(query, key, value, mask, bias, dropout, fuse_causal)
        return self.project_out(heads.transpose(1, 2).flatten(2))  # (B, Lq, D)


@contextmanager
def keep_attention(model: nn.Module) -> Iterator[dict[str, Any]]:
    """Inside, every attention of the model takes the explicit path and leaves its `weights` (B, H, Lq, Lk) on itself."""
    attentions: dict[str, Any] = {name: module for name, module in model.named_modules() if hasattr(module, "keep_weights")}
    for module in attentions.values():
        module.keep_weights = True
    try:
        yield attentions
    finally:
        for module in attentions.values():
            module.keep_weights, module.weights = False, None
