"""Longformer (Beltagy et al., 2020): a window, and global tokens that see every token and are seen by every token."""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.nn.attention.sparse import Keys
from heedful.nn.attention.window import WindowAttention


class LongformerAttention(WindowAttention):
    """A window, and the first `global_tokens` tokens of each row; `global_mask` may name more.

    With `causal`, a global token is seen by all later ones, but sees no more than any other token does: otherwise a decoder
    could not keep what it has computed. With `own_projections`, global queries, and the keys and values they see, have
    projections of their own, as published.
    """

    def __init__(self, window: int, global_tokens: int = 1, own_projections: bool = False, block: int | None = None) -> None:
        super().__init__(window, block)
        self.keeps = None  # global tokens may be anywhere
        self.global_tokens = global_tokens
        self.projects_globals = own_projections

    def global_columns(self, keys: Keys) -> Tensor | None:
        first = torch.arange(min(self.global_tokens, keys.count), device=keys.device) + keys.first  # (B or 1, G)
        first = torch.where(first < keys.count, first, -1)
        if keys.chosen is None:
            return first if self.global_tokens else None
        chosen = keys.chosen.bool() if keys.mask is None else keys.chosen.bool() & keys.mask.bool()
        chosen = chosen & (torch.arange(keys.count, device=keys.device) - keys.first >= self.global_tokens)
        return torch.cat([first.expand(len(chosen), -1), columns_of(chosen)], dim=-1)


def columns_of(marked: Tensor) -> Tensor:
    """(B, L) → (B, G): the columns that are True, −1 where a row has fewer than G."""
    counts = marked.sum(-1, keepdim=True)
    most = int(counts.max()) if len(counts) else 0
    columns = marked.int().argsort(dim=-1, descending=True, stable=True)[:, :most]
    return torch.where(torch.arange(most, device=marked.device) < counts, columns, -1)
