"""The recurrent encoder–decoder that the Transformer replaced, with and without attention.

Shapes: B batch, L source length, T target length, D d_model, N layers. Masks are boolean; True marks real tokens.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.attention.base import AttentionWeights
from heedful.nn.cache import join_rows
from heedful.nn.dropout import Dropout
from heedful.nn.fast.linear import Linear
from heedful.nn.trace import LayerOutputs

Cell = Literal["gru", "lstm"]
Score = Literal["none", "dot", "scaled-dot", "bilinear", "additive"]  # none: no attention at all
CELLS: dict[Cell, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


def matrix(width_in: int, width_out: int, parts: int = 1) -> nn.Linear:
    """A linear map without bias, Xavier uniform; a stack of several matrices is initialised matrix by matrix."""
    linear = Linear(width_in, width_out, bias=False)
    for part in linear.weight.chunk(parts):
        nn.init.xavier_uniform_(part)
    return linear


def build_cells(cell: Cell, width_in: int, width_out: int, layers: int = 1) -> nn.GRU | nn.LSTM:
    """Left-to-right recurrent layers, (B, L, width_in) → (B, L, width_out).

    Xavier uniform on the matrices of every gate, biases zero.
    """
    cells = CELLS[cell](width_in, width_out, layers, batch_first=True)
    for name, parameter in cells.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
        else:
            for gate in parameter.split(width_out):
                nn.init.xavier_uniform_(gate)
    return cells


def run_cells(cells: nn.Module, x: Tensor, state: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run recurrent layers over x (B, L, D) from a state, or from zeros; returns their outputs and their final state.

    A state is (s,) for GRU cells and (s, c) for LSTM cells, each (N, B, D).
    """
    # Never in bf16: rounding errors would accumulate over the steps, and not every CPU has a bf16 LSTM.
    dtype = next(cells.parameters()).dtype
    initial = None if state is None else tuple(part.to(dtype) for part in state)
    with torch.autocast(x.device.type, enabled=False):
        if isinstance(cells, nn.LSTM):
            outputs, final = cells(x.to(dtype), initial)
            return outputs, final
        outputs, s = cells(x.to(dtype), None if initial is None else initial[0])
        return outputs, (s,)


class RecurrentEncoder(nn.Module):
    """N recurrent layers. Bidirectional, each direction has half the width: h_j = [→h_j ; ←h_j]."""

    def __init__(self, cell: Cell, d_model: int, layers: int, bidirectional: bool) -> None:
        super().__init__()
        width = d_model // 2 if bidirectional else d_model
        self.rightward = nn.ModuleList(build_cells(cell, d_model, width) for _ in range(layers))
        self.leftward = nn.ModuleList(build_cells(cell, d_model, width) for _ in range(layers if bidirectional else 0))

    def forward(
        self, x: Tensor, mask: Tensor | None = None, return_layers: bool = False
    ) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, LayerOutputs]:
        """x (B, L, D), mask (B, L) with padding on the right → states h of the last layer (B, L, D), and the final state of
        every layer (N, B, D): that of each direction after its last real token.

        When asked for, the hidden states of every layer are returned too.
        """
        batch, length, _ = x.shape
        begin = torch.arange(0, batch * length, length, device=x.device)  # first row of each sentence in (B·L, D)
        lengths = torch.full_like(begin, length) if mask is None else mask.sum(-1)
        last = begin + (lengths - 1).clamp(min=0)
        # For the leftward cells each sentence is reversed while its padding stays on the right, so that they start with a
        # real token. On a CPU this is faster than packed sequences, by a sixth with GRU and by a third with LSTM.
        index = torch.arange(length, device=x.device)
        reversed_index = torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)  # (B, L)
        reverse = (begin[:, None] + reversed_index).flatten()  # (B·L,)

        def rows(states: Tensor, which: Tensor) -> Tensor:
            return states.flatten(0, 1).index_select(0, which)

        hidden, finals = [x], []
        for layer, rightward in enumerate(self.rightward):
            states, _ = run_cells(rightward, x)
            final = rows(states, last)
            if self.leftward:
                leftward, _ = run_cells(self.leftward[layer], rows(x, reverse).view_as(x))
                final = torch.cat([final, rows(leftward, last)], dim=-1)
                states = torch.cat([states, rows(leftward, reverse).view_as(leftward)], dim=-1)
            finals.append(final)
            x = states
            hidden.append(x)
        result = x, torch.stack(finals)
        return (*result, LayerOutputs(hidden)) if return_layers else result


class RecurrentAttention(nn.Module):
    """α_t = softmax(e_t), a_t = Σ_j α_tj h_j: decoder states s_t are the queries, encoder states h_j keys and values.

    e_tj = score(s_t, h_j): dot s·h, scaled-dot s·h/√D, bilinear s W h, additive v·tanh(W_1 s + W_2 h).
    """

    def __init__(self, d_model: int, score: Score) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model) if score == "scaled-dot" else 1.0
        needs_key, needs_query = score in ("bilinear", "additive"), score == "additive"
        self.project_key = matrix(d_model, d_model) if needs_key else nn.Identity()  # W, or W_2
        self.project_query = matrix(d_model, d_model) if needs_query else nn.Identity()  # W_1
        self.project_score = matrix(d_model, 1) if needs_query else None  # v

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        """s (B, T, D) and the projected h (B, L, D) → e (B, T, L)."""
        query = self.project_query(query)
        if self.project_score is None:
            return query @ key.transpose(1, 2) / self.scale
        # tanh in place, because (B, T, L, D) is the largest tensor of the model.
        mixed = (query[:, :, None] + key[:, None]).tanh_()
        scores: Tensor = self.project_score(mixed).squeeze(-1)
        return scores

    def forward(
        self, query: Tensor, memory: Tensor, key: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, AttentionWeights]:
        """Queries s (B, T, D), values h (B, L, D), keys `project_key(h)`, mask (B, L) → a (B, T, D).

        When asked for, the weights and scores of this one head (B, 1, T, L) are returned too.
        """
        scores = self.score(query, key)  # (B, T, L)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            padding = ~mask[:, None, :]
            # The lowest number instead of −∞, and zeros afterwards, so that a fully masked row gives zeros instead of NaN.
            weights = scores.masked_fill(padding, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(padding, 0.0)
        context = weights @ memory
        return (context, AttentionWeights(weights[:, None], scores[:, None])) if return_weights else context


class RecurrentState:
    """What decoding carries from step to step: the states of the cells and, for attention, the source."""

    def __init__(self, hidden: tuple[Tensor, ...], memory: Tensor | None, key: Tensor | None, mask: Tensor | None) -> None:
        self.hidden = hidden  # (s,) or (s, c), each (N, B, D)
        self.memory, self.key, self.mask = memory, key, mask  # (B, L, D), (B, L, D), (B, L)

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order; `sources=False` when every row keeps its source sentence."""
        self.hidden = tuple(part.index_select(1, rows) for part in self.hidden)
        if sources and self.memory is not None and self.key is not None:
            shared = self.key is self.memory
            self.memory = self.memory.index_select(0, rows)
            self.key = self.memory if shared else self.key.index_select(0, rows)
            self.mask = None if self.mask is None else self.mask.index_select(0, rows)

    def join(self, other: RecurrentState) -> None:
        """Add the rows of another state after these."""
        self.hidden = tuple(torch.cat(parts, dim=1) for parts in zip(self.hidden, other.hidden, strict=True))
        if self.memory is None or self.key is None or other.memory is None or other.key is None:
            return
        shared = self.key is self.memory
        masks = [
            memory.new_ones(memory.shape[:2], dtype=torch.bool) if mask is None else mask
            for memory, mask in ((self.memory, self.mask), (other.memory, other.mask))
        ]
        self.mask = join_rows(masks[0], masks[1], 1)
        memory = join_rows(self.memory, other.memory, 1)
        self.key = memory if shared else join_rows(self.key, other.key, 1)
        self.memory = memory


class RecurrentDecoder(nn.Module):
    """N recurrent layers give s_t. With attention ŝ_t = tanh(W_c [a_t ; s_t]); without, ŝ_t = s_t.

    The cells do not get a_t or ŝ_t of the previous step, so that training attends from all target positions at once.
    """

    def __init__(self, cell: Cell, d_model: int, layers: int, attention: Score, dropout: float) -> None:
        super().__init__()
        parts = 2 if cell == "lstm" else 1
        self.first = nn.ModuleList(matrix(d_model, parts * d_model, parts) for _ in range(layers))  # W_s, or W_s and W_m
        self.cells = build_cells(cell, d_model, d_model, layers)
        self.cross_attention = None if attention == "none" else RecurrentAttention(d_model, attention)
        self.combine = None if attention == "none" else matrix(2 * d_model, d_model)  # W_c
        self.dropout = Dropout(dropout)
        self.parts = parts

    def stacked(self) -> dict[str, list[int]]:
        """The rows of each matrix in a parameter that holds several."""
        return {
            f"first.{number}.weight": [first.in_features] * self.parts
            for number, first in enumerate(self.first)
            if isinstance(first, nn.Linear)
        }

    def start(self, memory: Tensor, finals: Tensor, mask: Tensor | None = None) -> RecurrentState:
        """Encoder states (B, L, D), their final ones (N, B, D) and mask (B, L) → the state before the first token.

        In each layer s_0 = tanh(W_s h_final) and c_0 = tanh(W_m h_final). Without attention, this is all that the decoder
        knows of the source.
        """
        first = torch.stack([linear(final) for linear, final in zip(self.first, finals, strict=True)]).tanh()
        hidden = tuple(part.contiguous() for part in first.chunk(self.parts, dim=-1))
        if self.cross_attention is None:
            return RecurrentState(hidden, None, None, None)
        return RecurrentState(hidden, memory, self.cross_attention.project_key(memory), mask)

    def forward(self, x: Tensor, state: RecurrentState, return_layers: bool = False) -> Tensor | tuple[Tensor, LayerOutputs]:
        """The next n inputs (B, n, D) → ŝ (B, n, D); `state` advances by n positions.

        When asked for, the hidden states x, s and ŝ and the attention weights are returned too. The cells run as one
        block, so hidden states between their layers are not available.
        """
        outputs = LayerOutputs([x])
        states, state.hidden = run_cells(self.cells, x, state.hidden)
        outputs.hidden.append(states)
        if self.cross_attention is not None and self.combine is not None:
            context = self.cross_attention(states, state.memory, state.key, state.mask, return_weights=return_layers)
            if return_layers:
                context, weights = context
                outputs.cross_attention.append(weights)
            states = self.combine(torch.cat([context, states], dim=-1)).tanh()
            outputs.hidden.append(states)
        dropped: Tensor = self.dropout(states)
        return (dropped, outputs) if return_layers else dropped
