"""Linformer (Wang et al., 2020): keys and values are projected along the length, to `projected_length` of each.

Shapes: B batch, H heads, L length, K d_k, V d_v, S projected keys.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heedful.nn.attention.base import Attended, Attention, AttentionWeights, Projected
from heedful.nn.attention.full import scaled_dot_product_attention
from heedful.nn.fast.attention import fused_attention
from heedful.nn.masks import over_keys
from heedful.nn.positions import PositionBias


class LinformerAttention(Attention):
    """softmax(Q (E K)ᵀ / √d_k) (F V), where E and F (S, L) are learned; cost O(L · S).

    A row of n < S tokens has n projected keys, so that padding changes nothing. A bias on distances sees projected key s in the
    middle of the s-th of S equal parts of the row.
    """

    not_causal = "it projects keys of the whole sequence, later ones too, into one"

    def __init__(self, projected_length: int, max_length: int) -> None:
        super().__init__()
        self.longest = max_length
        length = min(projected_length, max_length)
        self.project_keys = nn.Parameter(torch.empty(length, max_length))  # E
        self.project_values = nn.Parameter(torch.empty(length, max_length))  # F
        for matrix in (self.project_keys, self.project_values):
            nn.init.xavier_uniform_(matrix)

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
        """See `Attention.forward`. Each token's weight is its share in what the projected keys and values take from it."""
        if causal:
            raise NotImplementedError(f"linformer has no causal form: {self.not_causal}")
        length = key.size(2)
        slots = min(self.project_keys.size(0), length)
        lengths = torch.full((1, 1), length, device=query.device)
        if key_mask is not None:
            key, value = (part.masked_fill(~key_mask.bool()[:, None, :, None], 0.0) for part in (key, value))
            lengths = (key_mask.bool() * torch.arange(1, length + 1, device=query.device)).amax(-1, keepdim=True)
        to_keys, to_values = (matrix[:slots, :length].to(query.dtype) for matrix in (self.project_keys, self.project_values))
        slot = torch.arange(slots, device=query.device)
        used = slot < lengths  # (B or 1, S)
        added = None
        if bias is not None:
            parts = lengths.clamp(min=1, max=slots)
            middle = ((2 * slot + 1) * lengths // parts - 1) // 2  # (B or 1, S)
            query_at = torch.arange(start, start + query.size(2), device=query.device)
            added = bias.bias(query, query_at[:, None], middle[:, None, None, :])
        with torch.autocast(query.device.type, enabled=False):
            projected = to_keys @ key, to_values @ value  # (B, H, S, K) and (B, H, S, V)
        mask = over_keys(used)
        if not return_weights:
            return Attended(fused_attention(query, *projected, mask, added, dropout), None)
        heads, found = scaled_dot_product_attention(query, *projected, mask, added, dropout)
        share = found.weights @ to_values.abs()  # (B, H, Lq, L)
        if key_mask is not None:
            share = share.masked_fill(~key_mask.bool()[:, None, None, :], 0.0)
        share = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
        scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
        return Attended(heads, AttentionWeights(share, scores))
