"""Keys and values of positions already decoded, so that a decoding step costs one position.

Shapes: B batch, H heads, L positions cached, K d_k, V d_v.
"""

from __future__ import annotations

from torch import Tensor

MIN_CAPACITY = 16  # positions


class KeyValueCache:
    """Keys (B, H, L, K) and values (B, H, L, V) of one attention, in buffers whose capacity doubles when they are full."""

    def __init__(self) -> None:
        self.length = 0  # positions cached
        self.buffers: tuple[Tensor, ...] = ()  # (B, H, capacity, K) and (B, H, capacity, V), once something is cached

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Add the keys and values of new positions; returns those of all positions."""
        start, self.length = self.length, self.length + key.size(2)
        if not self.buffers:
            self.buffers = (key, value)  # without a copy, because cross-attention never appends to what it caches first
        else:
            if self.length > self.buffers[0].size(2):
                self.buffers = tuple(enlarge(buffer, start, self.length) for buffer in self.buffers)
            for buffer, new in zip(self.buffers, (key, value), strict=True):
                buffer.narrow(2, start, new.size(2)).copy_(new)
        return self.contents()

    def contents(self) -> tuple[Tensor, ...]:
        """Keys and values of all positions cached."""
        return tuple(buffer.narrow(2, 0, self.length) for buffer in self.buffers)

    def select(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order; a row may be repeated."""
        self.buffers = tuple(buffer.index_select(0, rows) for buffer in self.buffers)


def enlarge(buffer: Tensor, filled: int, needed: int) -> Tensor:
    """A buffer (B, H, ≥ 2 · needed, width) whose first `filled` positions are those of the given one."""
    rows, heads, _, width = buffer.shape
    larger = buffer.new_empty(rows, heads, max(MIN_CAPACITY, 2 * needed), width)
    larger.narrow(2, 0, filled).copy_(buffer.narrow(2, 0, filled))
    return larger


class LayerCache:
    """What one decoder layer keeps between steps: keys and values of the target so far, and of the source."""

    def __init__(self) -> None:
        self.past, self.source = KeyValueCache(), KeyValueCache()
