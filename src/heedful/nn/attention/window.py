"""Restricted attention (Table 1 of the paper): a query sees only the keys at most `window` positions away."""

from __future__ import annotations

from torch import Tensor

from heedful.nn.attention.sparse import SparseAttention

BLOCKS = (32, 256)  # queries that are computed together: about as many as the window is wide, within these bounds


class WindowAttention(SparseAttention):
    """Query i sees the keys i − window … i + window, or i − window … i with `causal`; cost O(L · window)."""

    def __init__(self, window: int, block: int | None = None) -> None:
        super().__init__(window, block or min(max(window, BLOCKS[0]), BLOCKS[1]))
        self.keeps = window

    def near(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        return (query_at - key_at).abs() <= self.reach
