"""Full attention: every query may attend to every key (Section 3.2.1).

Shapes: B batch, H heads, Lq queries, Lk keys, K d_k, V d_v.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention.base import Attended, Attention, AttentionWeights, Projected
from heedful.nn.fast.attention import fused_attention
from heedful.nn.masks import causal_mask, over_keys
from heedful.nn.positions import PositionBias


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, AttentionWeights]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, Equation 1; `bias` is added to the scores.

    query (B, H, Lq, K), key (B, H, Lk, K), value (B, H, Lk, V) → heads (B, H, Lq, V). `mask` and `bias` broadcast to
    (B, H, Lq, Lk). A query with nothing to attend to gets zeros.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, Lq, Lk)
    if bias is not None:
        scores = scores + bias
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        masked = scores.masked_fill(~mask, -math.inf)
        # The softmax of a row of −∞ is NaN, so a fully masked row gets finite scores before it and zero weights after it.
        empty = ~mask.any(dim=-1, keepdim=True)  # (…, Lq, 1)
        weights = torch.softmax(masked.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
    return F.dropout(weights, dropout) @ value, AttentionWeights(weights, scores)


class FullAttention(Attention):
    """Every query attends to every key; cost O(Lq · Lk)."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_mask: Tensor | None = None,
        causal: bool = False,
        start: int = 0,
        bias: PositionBias | None = None,
        dropout: float = 0.0,
        return_weights: bool = False,
        padding: Tensor | None = None,
        global_mask: Tensor | None = None,
        of_globals: Projected | None = None,
    ) -> Attended:
        """See `Attention.forward`."""
        queries, keys = query.size(2), key.size(2)
        added = None if bias is None else bias.dense_bias(query, keys, start)  # broadcasts to (B, H, Lq, Lk)
        mask = over_keys(key_mask)  # (B, 1, 1, Lk)
        causal = causal and queries > 1  # a single query is the newest position and sees every key
        kernel_masks_future = causal and mask is None and added is None and start == 0 and not return_weights
        if causal and not kernel_masks_future:
            past = causal_mask(queries, keys, device=query.device)
            mask = past if mask is None else mask & past
        if return_weights:
            return Attended(*scaled_dot_product_attention(query, key, value, mask, added, dropout))
        return Attended(fused_attention(query, key, value, mask, added, dropout, causal=kernel_masks_future), None)
