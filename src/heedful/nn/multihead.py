"""Multi-head attention (Section 3.2.2): projections, heads, rotary positions and the cache around an attention kind.

Shapes: B batch, H heads, L length (Lq queries, Lk keys), D d_model, K d_k, V d_v. Masks are boolean; True may attend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.attention.base import Attended, AttentionWeights, Projected
from heedful.nn.attention.kinds import AttentionSettings, build_attention
from heedful.nn.cache import KeyValueCache, SourceKeys
from heedful.nn.fast.attention import float32_on_cpu
from heedful.nn.fast.linear import Linear, linear_map
from heedful.nn.positions import AttentionPositions, PositionBias, RotaryPositions


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_H) W_O, where head_i = Attention(Q W_Qi, K W_Ki, V W_Vi).

    W_Q, W_K and W_V are stacked in one matrix, so that self-attention projects with a single product.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.0,
        positions: AttentionPositions | None = None,
        settings: AttentionSettings | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.d_k = d_k or d_model // heads
        self.d_v = d_v or d_model // heads
        self.dropout = dropout
        self.positions = positions
        self.attend = build_attention(settings or AttentionSettings())
        own_keys = 0 if self.attend.shares_queries else heads * self.d_k
        self.widths = (heads * self.d_k, own_keys, heads * self.d_v)  # of Q, K and V
        self.project_in = Linear(d_model, sum(self.widths))  # W_Q, W_K, W_V
        self.project_out = Linear(heads * self.d_v, d_model)  # W_O
        if self.attend.projects_globals:
            self.project_global = Linear(d_model, sum(self.widths))  # another W_Q, W_K, W_V
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier uniform on W_Q, W_K, W_V and W_O each; biases zero."""
        for linear in [self.project_in, *([self.project_global] if self.attend.projects_globals else [])]:
            for matrix in linear.weight.split([width for width in self.widths if width]):
                nn.init.xavier_uniform_(matrix)
            nn.init.zeros_(linear.bias)
        nn.init.xavier_uniform_(self.project_out.weight)
        nn.init.zeros_(self.project_out.bias)

    def stacked(self) -> dict[str, list[int]]:
        """The rows of each matrix in a parameter that holds several."""
        rows = [width for width in self.widths if width]
        return {"project_in.weight": rows, **({"project_global.weight": rows} if self.attend.projects_globals else {})}

    def project(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Some of Q, K and V (numbered 0, 1, 2), split into heads: (B, L, D) → (B, H, L, K or V) each."""
        start, end = sum(self.widths[:first]), sum(self.widths[: last + 1])
        projected = linear_map(x, self.project_in.weight[start:end], self.project_in.bias[start:end])
        return self.split_heads(float32_on_cpu(projected, x), self.widths[first : last + 1])

    def split_heads(self, projected: Tensor, widths: Sequence[int]) -> tuple[Tensor, ...]:
        """(B, L, all widths) → (B, H, L, width / H) for each width."""
        parts = projected.split(tuple(widths), dim=-1)
        return tuple(part.unflatten(-1, (self.heads, part.size(-1) // self.heads)).transpose(1, 2) for part in parts)

    def self_projections(self, x: Tensor, linear: nn.Linear, position: int | Tensor) -> Projected:
        """Queries, keys and values of x (B, L, D) by W_Q, W_K and W_V of `linear`, rotated to their positions."""
        query, key, value = self.split_heads(float32_on_cpu(linear(x), x), self.widths)
        rotary = self.positions if isinstance(self.positions, RotaryPositions) else None
        if rotary is not None:
            query = rotary.rotate(query, position)
        if self.attend.shares_queries:
            key = F.normalize(query, dim=-1) * math.sqrt(query.size(-1))
        elif rotary is not None:
            key = rotary.rotate(key, position)
        return Projected(query, key, value)

    def source_keys(self, memory: Tensor) -> SourceKeys:
        """The keys and values of a memory (B, Lk, D)."""
        return SourceKeys(*self.project(memory, 1, 2))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | SourceKeys | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
        global_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """Attend from x (B, Lq, D) to itself, or to memory (B, Lk, D) → (B, Lq, D), and the weights when asked for.

        `mask` (B, Lk) is True on keys that may be attended to, `global_mask` on tokens that are global besides the first ones
        if the attention kind has such tokens. With a cache, self-attention appends x to the positions it holds. A memory that is
        attended to step by step is projected once, by `source_keys`.
        """
        start, padding, of_globals = 0, None, None
        bias = self.positions if memory is None and isinstance(self.positions, PositionBias) else None
        if memory is None:
            query, key, value = self.self_projections(x, self.project_in, cache.position() if cache else 0)
            if cache is not None:
                key, value = cache.append(key, value, self.attend.keeps)
                # Distances between columns of the cache are distances between positions.
                start, padding = key.size(2) - query.size(2), cache.padding_of(key.size(2))
                mask = cache.key_mask(key.size(2)) if mask is None else mask
            elif self.attend.projects_globals and not causal:
                of_globals = self.self_projections(x, self.project_global, 0)
        else:
            (query,) = self.project(x, 0, 0)
            key, value = memory if isinstance(memory, SourceKeys) else self.source_keys(memory)
        attended: Attended = self.attend(
            query,
            key,
            value,
            key_mask=mask,
            causal=causal,
            start=start,
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
            padding=padding,
            global_mask=global_mask,
            of_globals=of_globals,
        )
        output: Tensor = self.project_out(attended.heads.transpose(1, 2).flatten(2))  # (B, Lq, D)
        return output if attended.weights is None else (output, attended.weights)
