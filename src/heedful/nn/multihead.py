"""Multi-head attention (Section 3.2.2): projections, heads, rotary positions and the cache around an attention kind.

Shapes: B batch, H heads, L length (Lq queries, Lk keys), D d_model, K d_k, V d_v. Masks are boolean; True may attend.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.attention.base import Attended, AttentionWeights
from heedful.nn.attention.kinds import AttentionSettings, build_attention
from heedful.nn.cache import KeyValueCache
from heedful.nn.fast.attention import float32_on_cpu
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
        self.widths = (heads * self.d_k, heads * self.d_k, heads * self.d_v)  # of Q, K and V
        self.project_in = nn.Linear(d_model, sum(self.widths))  # W_Q, W_K, W_V
        self.project_out = nn.Linear(heads * self.d_v, d_model)  # W_O
        self.attend = build_attention(settings or AttentionSettings())
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier uniform on W_Q, W_K, W_V and W_O each; biases zero."""
        for matrix in self.project_in.weight.split(self.widths):
            nn.init.xavier_uniform_(matrix)
        nn.init.xavier_uniform_(self.project_out.weight)
        nn.init.zeros_(self.project_in.bias)
        nn.init.zeros_(self.project_out.bias)

    def project(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Some of Q, K and V (numbered 0, 1, 2), split into heads: (B, L, D) → (B, H, L, K or V) each."""
        widths = self.widths[first : last + 1]
        if len(widths) == 3:
            projected = self.project_in(x)
        else:
            start = sum(self.widths[:first])
            end = start + sum(widths)
            projected = F.linear(x, self.project_in.weight[start:end], self.project_in.bias[start:end])
        parts = float32_on_cpu(projected, x).split(widths, dim=-1)
        return tuple(part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """Attend from x (B, Lq, D) to itself, or to memory (B, Lk, D) → (B, Lq, D), and the weights when asked for.

        `mask` (B, Lk) is True on keys that may be attended to. With a cache, self-attention appends x to the positions it
        holds, and cross-attention projects the memory only once.
        """
        start, bias = 0, None
        if memory is None:
            query, key, value = self.project(x, 0, 2)
            start = cache.length if cache else 0
            if isinstance(self.positions, RotaryPositions):
                query, key = self.positions.rotate(query, start), self.positions.rotate(key, start)
            elif isinstance(self.positions, PositionBias):
                bias = self.positions
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            (query,) = self.project(x, 0, 0)
            if cache is None:
                key, value = self.project(memory, 1, 2)
            elif cache.length == 0:
                key, value = cache.append(*self.project(memory, 1, 2))
            else:
                key, value = cache.contents()
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
        )
        output: Tensor = self.project_out(attended.heads.transpose(1, 2).flatten(2))  # (B, Lq, D)
        return output if attended.weights is None else (output, attended.weights)
