"""What came before the Transformer: a recurrent encoder, and a recurrent decoder with and without attention (SPEC 1).

Shapes: B batch, L source length, T target length, D d_model, N layers. Masks are boolean; True may be read.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from heedful.nn.residual import Dropout

Cell = Literal["gru", "lstm"]
Score = Literal["none", "dot", "scaled-dot", "bilinear", "additive"]  # none: no attention at all
CELLS: dict[Cell, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


def matrix(width_in: int, width_out: int, parts: int = 1) -> nn.Linear:
    """A linear map without bias, Xavier uniform; when it holds several maps, each as a matrix of its own."""
    linear = nn.Linear(width_in, width_out, bias=False)
    for part in linear.weight.chunk(parts):
        nn.init.xavier_uniform_(part)
    return linear


def recurrence(cell: Cell, width_in: int, width_out: int, layers: int = 1) -> nn.GRU | nn.LSTM:
    """Cells that read (B, L, width_in) from left to right and give (B, L, width_out).

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


def read(cells: nn.Module, x: Tensor, state: tuple[Tensor, ...] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run cells over x (B, L, D) from a state, zero when none is given: their outputs, and their state afterwards.

    A state has one part s (N, B, D) with GRU cells, and with LSTM cells their memory c as well.
    """
    # Never in bf16: its rounding would add up from step to step, and not every CPU can run an LSTM in it.
    exact = next(cells.parameters()).dtype
    before = None if state is None else tuple(part.to(exact) for part in state)
    with torch.autocast(x.device.type, enabled=False):
        if isinstance(cells, nn.LSTM):
            outputs, after = cells(x.to(exact), before)
            return outputs, after
        outputs, s = cells(x.to(exact), None if before is None else before[0])
        return outputs, (s,)


class RecurrentEncoder(nn.Module):
    """N layers that read from left to right or, bidirectional, half of the width each way: h_j = [→h_j ; ←h_j]."""

    def __init__(self, cell: Cell, d_model: int, layers: int, bidirectional: bool) -> None:
        super().__init__()
        width = d_model // 2 if bidirectional else d_model
        self.rightward = nn.ModuleList(recurrence(cell, d_model, width) for _ in range(layers))
        self.leftward = nn.ModuleList(recurrence(cell, d_model, width) for _ in range(layers if bidirectional else 0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, L, D), mask (B, L) with padding on the right → h of the last layer (B, L, D), and every layer's
        final state (N, B, D): what each direction knows when it has read its last real token."""
        batch, length, _ = x.shape
        begin = torch.arange(0, batch * length, length, device=x.device)  # of each sentence among the rows of (B·L, D)
        lengths = torch.full_like(begin, length) if mask is None else mask.sum(-1)
        last = begin + (lengths - 1).clamp(min=0)
        # Each sentence turned round while its padding stays on the right: then the leftward cells, too, begin with a
        # real token. On a CPU this is faster than packed sequences, by a sixth with GRU and by a third with LSTM.
        place = torch.arange(length, device=x.device)
        turned_place = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
        turn = (begin[:, None] + turned_place).flatten()

        def rows(states: Tensor, which: Tensor) -> Tensor:
            return states.flatten(0, 1).index_select(0, which)

        finals = []
        for layer, rightward in enumerate(self.rightward):
            states, _ = read(rightward, x)
            final = rows(states, last)
            if self.leftward:
                turned, _ = read(self.leftward[layer], rows(x, turn).view_as(x))
                final = torch.cat([final, rows(turned, last)], dim=-1)
                states = torch.cat([states, rows(turned, turn).view_as(turned)], dim=-1)
            finals.append(final)
            x = states
        return x, torch.stack(finals)


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
        self.keep_weights = False
        self.weights: Tensor | None = None

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        """s (B, T, D) and the projected h (B, L, D) → e (B, T, L)."""
        query = self.project_query(query)
        if self.project_score is None:
            return query @ key.transpose(1, 2) / self.scale
        # In place, because (B, T, L, D) is the largest tensor of the model and one of it is enough.
        mixed = (query[:, :, None] + key[:, None]).tanh_()
        return self.project_score(mixed).squeeze(-1)

    def forward(self, query: Tensor, memory: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
        """Queries s (B, T, D), values h (B, L, D), keys `project_key(h)`, mask (B, L) → a (B, T, D)."""
        scores = self.score(query, key)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            hidden = ~mask[:, None, :]
            # The lowest number in place of −∞, and zeros afterwards: a row with nothing to read gives no NaN.
            weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
        if self.keep_weights:
            self.weights = weights[:, None]  # (B, 1, T, L): one head
        return weights @ memory


class RecurrentState:
    """What decoding carries from step to step: the cells' states and, for attention, the source."""

    def __init__(self, hidden: tuple[Tensor, ...], memory: Tensor | None, key: Tensor | None, mask: Tensor | None) -> None:
        self.hidden = hidden  # s, and with LSTM cells their memory c: (N, B, D) each
        self.memory, self.key, self.mask = memory, key, mask  # (B, L, D), (B, L, D), (B, L)
        self.length = 0  # target positions already decoded

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these batch rows, in this order; `sources=False` when every row keeps its source sentence."""
        self.hidden = tuple(part.index_select(1, rows) for part in self.hidden)
        if sources and self.memory is not None and self.key is not None:
            shared = self.key is self.memory
            self.memory = self.memory.index_select(0, rows)
            self.key = self.memory if shared else self.key.index_select(0, rows)
            self.mask = None if self.mask is None else self.mask.index_select(0, rows)


class RecurrentDecoder(nn.Module):
    """N layers of cells give s_t. With attention ŝ_t = tanh(W_c [a_t ; s_t]); without, ŝ_t = s_t.

    No layer reads a_t or ŝ_t of the step before, so that attention runs over a whole target at once.
    """

    def __init__(self, cell: Cell, d_model: int, layers: int, attention: Score, dropout: float) -> None:
        super().__init__()
        parts = 2 if cell == "lstm" else 1
        self.first = nn.ModuleList(matrix(d_model, parts * d_model, parts) for _ in range(layers))
        self.cells = recurrence(cell, d_model, d_model, layers)
        self.cross_attention = None if attention == "none" else RecurrentAttention(d_model, attention)
        self.combine = None if attention == "none" else matrix(2 * d_model, d_model)  # W_c
        self.dropout = Dropout(dropout)
        self.parts = parts

    def start(self, memory: Tensor, finals: Tensor, mask: Tensor | None = None) -> RecurrentState:
        """Encoder states (B, L, D), their final ones (N, B, D) and mask (B, L) → the state before the first token.

        Layer by layer s_0 = tanh(W_s h_final), and c_0 = tanh(W_m h_final). Without attention the decoder gets no more.
        """
        first = torch.stack([linear(final) for linear, final in zip(self.first, finals, strict=True)]).tanh()
        hidden = tuple(part.contiguous() for part in first.chunk(self.parts, dim=-1))
        if self.cross_attention is None:
            return RecurrentState(hidden, None, None, None)
        return RecurrentState(hidden, memory, self.cross_attention.project_key(memory), mask)

    def forward(self, x: Tensor, state: RecurrentState) -> Tensor:
        """The next n inputs (B, n, D) → ŝ (B, n, D); `state` moves on by n positions."""
        states, state.hidden = read(self.cells, x, state.hidden)
        state.length += x.size(1)
        if self.cross_attention is not None and self.combine is not None:
            context = self.cross_attention(states, state.memory, state.key, state.mask)
            states = self.combine(torch.cat([context, states], dim=-1)).tanh()
        return self.dropout(states)
