"""Masks (Section 3.2.3): boolean, True means "may attend"."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(lengths: Tensor, length: int | None = None) -> Tensor:
    """Lengths (B,) → mask (B, L): True on real tokens, False on padding."""
    longest = int(lengths.max()) if length is None else length
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def causal_mask(queries: int, keys: int | None = None, device: torch.device | None = None) -> Tensor:
    """Mask (Lq, Lk): position t sees positions ≤ t. With fewer queries than keys, the queries are the last positions."""
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def over_keys(mask: Tensor | None) -> Tensor | None:
    """Key mask (B, Lk) → (B, 1, 1, Lk), which broadcasts over heads and queries."""
    return None if mask is None else mask.bool()[:, None, None, :]
