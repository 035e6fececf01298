"""Keys and values of positions already decoded, so that a decoding step costs one position.

Shapes: B batch, H heads, L positions cached, K d_k, V d_v.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MIN_CAPACITY = 16  # positions


class SourceKeys(NamedTuple):
    """Keys (B, H, L, K) and values (B, H, L, V) of a source, projected once for all steps of a cross-attention."""

    key: Tensor
    value: Tensor

    def select(self, rows: Tensor) -> SourceKeys:
        """These batch rows, in this order; a row may be repeated."""
        return SourceKeys(self.key.index_select(0, rows), self.value.index_select(0, rows))

    def join(self, other: SourceKeys) -> SourceKeys:
        """The rows of both, padded to the longer source."""
        return SourceKeys(join_rows(self.key, other.key, 2), join_rows(self.value, other.value, 2))


class KeyValueCache:
    """Keys (B, H, L, K) and values (B, H, L, V) of one self-attention, in buffers whose capacity doubles when they are full.

    Rows that joined later have fewer positions. The newest position of every row is in the last column, so that a row with
    fewer positions has padding on the left: `padding` (B,) counts it, and is None when no row has any. Where attention needs
    only the last positions, older ones are dropped: their columns still count, but the buffers begin after them.
    """

    def __init__(self) -> None:
        self.length = 0  # columns so far, with padding and with those dropped
        self.dropped = 0  # columns before the first one in the buffers
        self.padding: Tensor | None = None
        self.buffers: tuple[Tensor, ...] = ()  # (B, H, capacity, K) and (B, H, capacity, V), once something is cached

    @property
    def kept(self) -> int:
        """Columns in the buffers."""
        return self.length - self.dropped

    def append(self, key: Tensor, value: Tensor, keeps: int | None = None) -> tuple[Tensor, ...]:
        """Add the keys and values of new positions; returns those of all positions cached.

        `keeps`: how many positions before the new ones are needed at most; the buffers then stay about that long.
        """
        start, new = self.kept, key.size(2)
        self.length += new
        if not self.buffers:
            self.buffers = (key, value)
        else:
            if self.kept > self.buffers[0].size(2):
                start = self._make_room(start, new, keeps)
            for buffer, added in zip(self.buffers, (key, value), strict=True):
                buffer.narrow(2, start, new).copy_(added)
        needed = self.kept if keeps is None else min(self.kept, keeps + new)
        found = tuple(buffer.narrow(2, self.kept - needed, needed) for buffer in self.buffers)
        if keeps is not None and self.kept > 2 * keeps + new + MIN_CAPACITY:  # after a long prompt: give its memory back
            self._make_room(self.kept, 0, keeps)
        return found

    def _make_room(self, filled: int, new: int, keeps: int | None) -> int:
        """Allocate larger buffers, or move the last `keeps` columns to the front of new ones; returns how many are filled."""
        left = filled if keeps is None else min(filled, keeps)
        capacity = 2 * (left + new) if keeps is None else 2 * keeps + new
        self.buffers = tuple(moved(buffer, filled - left, left, capacity) for buffer in self.buffers)
        self.dropped += filled - left
        return left

    def contents(self) -> tuple[Tensor, ...]:
        """Keys and values of all positions cached."""
        return tuple(buffer.narrow(2, 0, self.kept) for buffer in self.buffers)

    def position(self) -> int | Tensor:
        """The position of the next token, which is not the same in all rows when some have padding: then (B,)."""
        return self.length if self.padding is None else self.length - self.padding

    def padding_of(self, columns: int) -> Tensor | None:
        """(B,) the column of each row's first token, counted within the last `columns` columns; negative if it is before them."""
        return None if self.padding is None else self.padding - (self.length - columns)

    def key_mask(self, columns: int | None = None) -> Tensor | None:
        """(B, L): False on padding; of the last `columns` columns, or of all that are cached."""
        padding = self.padding_of(self.kept if columns is None else columns)
        if padding is None:
            return None
        return torch.arange(self.kept if columns is None else columns, device=padding.device) >= padding[:, None]

    def select(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order; a row may be repeated."""
        unused = 0
        if self.padding is not None:
            padding = self.padding.index_select(0, rows)
            unused = int(padding.min()) if len(padding) else 0  # columns that are padding in all rows
            self.padding = padding - unused if int(padding.max()) > unused else None
        if unused:
            kept = self.kept
            self.length -= unused
            self.dropped = max(0, self.dropped - unused)
            self.buffers = tuple(buffer.narrow(2, kept - self.kept, self.kept) for buffer in self.buffers)
        self.buffers = tuple(buffer.index_select(0, rows) for buffer in self.buffers)

    def join(self, other: KeyValueCache, rows: int, other_rows: int) -> None:
        """Add the rows of another cache after these. Both row counts are passed because an empty cache has none."""
        length = max(self.length, other.length)
        counts = [torch.full((n,), length - cache.length) for n, cache in ((rows, self), (other_rows, other))]
        parts = [
            count if cache.padding is None else cache.padding + count.to(cache.padding)
            for count, cache in zip(counts, (self, other), strict=True)
        ]
        filled = [cache for cache in (self, other) if cache.buffers]
        if filled:
            device = filled[0].buffers[0].device
            padding = torch.cat([part.to(device) for part in parts])
            self.padding = padding if bool(padding.any()) else None
            kept = max(cache.kept for cache in filled)
            shapes = [buffer.shape for buffer in filled[0].buffers]
            joined = [filled[0].buffers[0].new_zeros(rows + other_rows, h, kept + MIN_CAPACITY, w) for _, h, _, w in shapes]
            for cache, first, count in ((self, 0, rows), (other, rows, other_rows)):
                for whole, buffer in zip(joined, cache.buffers, strict=bool(cache.buffers)):
                    part = whole.narrow(0, first, count).narrow(2, kept - cache.kept, cache.kept)
                    part.copy_(buffer.narrow(2, 0, cache.kept))
            self.buffers = tuple(joined)
            self.dropped = length - kept
        self.length = length


def moved(buffer: Tensor, start: int, count: int, capacity: int) -> Tensor:
    """A buffer (B, H, ≥ capacity, width) that begins with `count` positions of the given one."""
    rows, heads, _, width = buffer.shape
    larger = buffer.new_empty(rows, heads, max(MIN_CAPACITY, capacity), width)
    larger.narrow(2, 0, count).copy_(buffer.narrow(2, start, count))
    return larger


def join_rows(first: Tensor, second: Tensor, along: int, on_left: bool = False) -> Tensor:
    """The rows (dimension 0) of both, the shorter padded with zeros along another dimension."""
    longest = max(first.size(along), second.size(along))
    shape = list(first.shape)
    shape[0], shape[along] = first.size(0) + second.size(0), longest
    joined = first.new_zeros(shape)
    start = 0
    for part in (first, second):
        at = longest - part.size(along) if on_left else 0
        joined.narrow(0, start, part.size(0)).narrow(along, at, part.size(along)).copy_(part)
        start += part.size(0)
    return joined
