"""Batches of similar length under a token budget, in an order that depends on the seed and the epoch alone.

Because nothing else decides the order, a position in the data is just (epoch, batch), and any process can compute any
other's batches.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.store import ParallelStore
from heedful.text import Tokenizer

POOL = 1 << 20  # pairs sorted by length together
Indices = NDArray[np.int64]


def plan_epoch(
    source_lengths: NDArray[np.int32],
    target_lengths: NDArray[np.int32],
    batch_tokens: int,
    seed: int,
    epoch: int,
    most: int = 0,
) -> Iterator[Indices]:
    """Batches of pair indices whose padded size, on the longer side, is at most `batch_tokens` (or one pair).

    Every pair comes exactly once: shuffled, sorted by length inside large pools, cut, and the cuts shuffled. `most`
    limits the pairs of a batch; 0 does not.
    """
    chance = np.random.default_rng([seed, epoch])
    order = np.arange(len(source_lengths), dtype=np.min_scalar_type(len(source_lengths)))  # as small as will do
    chance.shuffle(order)
    for start in range(0, len(order), POOL):
        pool = order[start : start + POOL].astype(np.int64)
        sources, targets = source_lengths[pool], target_lengths[pool]
        widths = np.maximum(sources, targets) + 1  # begin or end takes one more
        narrow = np.min_scalar_type(widths.max())  # numpy sorts 16 bits in a fifth of the time of 32
        # Sources grow and shrink in turn from one target length to the next: a batch of two target lengths has alike ones.
        there_and_back = np.where(targets % 2, sources.max() - sources, sources)
        by_length = np.lexsort((there_and_back.astype(narrow), targets.astype(narrow)))
        pool, widths = pool[by_length], widths[by_length]
        cuts = [0]
        while cuts[-1] < len(pool):
            room = max(1, batch_tokens // int(widths[cuts[-1]]))
            ahead = widths[cuts[-1] : cuts[-1] + (min(room, most) if most else room)]
            sizes = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)  # grows with every pair
            cuts.append(cuts[-1] + max(1, int(np.searchsorted(sizes, batch_tokens, side="right"))))
        for cut in chance.permutation(len(cuts) - 1):
            yield pool[cuts[cut] : cuts[cut + 1]]


@dataclass(frozen=True)
class TensorBatch:
    """Tensors that travel together; a subclass names them."""

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return type(self)(*(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__))

    def twice(self) -> Self:
        """Every example two times: all of them, then all of them again."""
        return type(self)(*(torch.cat([getattr(self, name)] * 2) for name in self.__dataclass_fields__))

    def pieces(self, positions: int) -> list[Self]:
        """The examples a few at a time, of about so many positions; whole if the first tensor is not (B, L)."""
        tensors = [getattr(self, name) for name in self.__dataclass_fields__]
        if tensors[0].dim() != 2:
            return [self]
        count = max(1, min(len(tensors[0]), round(tensors[0].numel() / positions)))
        return [type(self)(*parts) for parts in zip(*(tensor.chunk(count) for tensor in tensors), strict=True)]


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Pairs as padded tensors: source (B, L) with its mask, target input and output (B, T), and how many are real."""

    source: Tensor
    source_mask: Tensor
    target_in: Tensor  # begin, then the target
    target_out: Tensor  # the target, then end
    target_mask: Tensor


@dataclass(frozen=True)
class SpecialIds:
    """The ids that frame a sequence, of each side."""

    source_pad: int
    source_eos: int
    target_pad: int
    target_bos: int
    target_eos: int


def special_ids(source: Tokenizer, target: Tokenizer) -> SpecialIds:
    """The framing ids of two tokenizers."""
    return SpecialIds(source.pad, source.eos, target.pad, target.bos, target.eos)


def frame(rows: list[NDArray[np.uint32]], pad: int, before: int | None, after: int | None) -> tuple[Tensor, Tensor]:
    """Rows of ids, framed and padded: (B, L) ids and (B, L) mask."""
    extra = (before is not None) + (after is not None)
    ids = np.full((len(rows), max(len(row) for row in rows) + extra), pad, dtype=np.int64)
    lengths = np.fromiter((len(row) + extra for row in rows), dtype=np.int64, count=len(rows))
    first = 0 if before is None else 1
    for index, row in enumerate(rows):
        ids[index, first : first + len(row)] = row
    if before is not None:
        ids[:, 0] = before
    if after is not None:
        ids[np.arange(len(rows)), lengths - 1] = after
    return torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1]) < lengths[:, None])


def collate(sources: list[NDArray[np.uint32]], targets: list[NDArray[np.uint32]], special: SpecialIds) -> Batch:
    """Pairs of id rows as one padded batch."""
    source_ids, source_mask = frame(sources, special.source_pad, None, special.source_eos)
    target_in, target_mask = frame(targets, special.target_pad, special.target_bos, None)
    target_out, _ = frame(targets, special.target_pad, None, special.target_eos)
    return Batch(source_ids, source_mask, target_in, target_out, target_mask)


@dataclass(frozen=True)
class BpeDropout:
    """Takes merges of BPE back by chance, so that a model sees a word in several spellings (BPE-dropout).

    With `chance` a token becomes the two that it was merged from, and so may these in turn. What comes of a row depends
    on the seed, the epoch and the number of its pair alone, whoever reads it.
    """

    chance: float
    seed: int
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]  # of the source's tokenizer and the target's, `Tokenizer.halves`

    def split(self, row: NDArray[np.uint32], side: int, epoch: int, index: int) -> NDArray[np.uint32]:
        """The ids of a pair's source (side 0) or target (1) with some of them taken apart."""
        chance, halves = np.random.default_rng([self.seed, epoch, index, side]), self.halves[side]
        fresh = np.ones(len(row), dtype=bool)  # tokens that have not been asked yet
        while True:
            taken = fresh & (halves[row, 0] >= 0) & (chance.random(len(row)) < self.chance)
            if not taken.any():
                return row
            fresh, parts = np.repeat(taken, 1 + taken), np.repeat(row, 1 + taken)
            parts[fresh] = halves[row[taken]].ravel()
            row = parts


@dataclass(frozen=True)
class Position:
    """How far the data has been read: batches taken of an epoch."""

    epoch: int = 0
    batch: int = 0


B = TypeVar("B")


def deal_batches(
    plan: Callable[[int], Iterable[Indices]],
    make: Callable[[Indices, int], B],
    position: Position,
    rank: int = 0,
    world: int = 1,
) -> Iterator[tuple[Position, B | None]]:
    """This process's share of every batch from `position` on, for ever, each with the position after it.

    `plan` gives the batches of an epoch as indices, `make` turns some of them (and the epoch) into tensors. A batch is
    dealt out to the processes example by example, so none sees another's; a share may be empty (None).
    """
    epoch, skip = position.epoch, position.batch
    while True:
        for number, indices in enumerate(plan(epoch), 1):
            if number > skip:
                mine = indices[rank::world]
                yield Position(epoch, number), make(mine, epoch) if len(mine) else None
        epoch, skip = epoch + 1, 0


def batches_from(
    store: ParallelStore,
    special: SpecialIds,
    batch_tokens: int,
    seed: int,
    position: Position,
    rank: int = 0,
    world: int = 1,
    most: int = 0,
    dropout: BpeDropout | None = None,
) -> Iterator[tuple[Position, Batch | None]]:
    """This process's share of the pairs in a store."""

    def plan(epoch: int) -> Iterator[Indices]:
        return plan_epoch(store.source.lengths, store.target.lengths, batch_tokens, seed, epoch, most)

    def make(indices: Indices, epoch: int) -> Batch:
        sides = [[side[i] for i in indices] for side in (store.source, store.target)]
        if dropout is not None:
            for number, rows in enumerate(sides):
                rows[:] = [dropout.split(row, number, epoch, int(i)) for row, i in zip(rows, indices, strict=True)]
        return collate(sides[0], sides[1], special)

    return deal_batches(plan, make, position, rank, world)


T = TypeVar("T")


class Prefetch(Generic[T]):
    """An iterator run ahead in a thread, which also tells how long its reader had to wait."""

    def __init__(self, items: Iterator[T], ahead: int = 8) -> None:
        self.queue: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(ahead)
        self.stop = threading.Event()
        self.waited = 0.0
        self.end: BaseException | None = None
        self.thread = threading.Thread(target=self._fill, args=(items,), daemon=True)
        self.thread.start()

    def _fill(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if not self._put((item, None)):
                    return
            self._put((None, StopIteration()))
        except BaseException as error:  # handed to the reader, whose error it is
            self._put((None, error))

    def _put(self, entry: tuple[T | None, BaseException | None]) -> bool:
        while not self.stop.is_set():
            try:
                self.queue.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Prefetch[T]:
        return self

    def __next__(self) -> T:
        if self.end is not None:
            raise self.end
        start = time.perf_counter()
        item, self.end = self.queue.get()
        self.waited += time.perf_counter() - start
        if self.end is not None:
            raise self.end
        return item  # type: ignore[return-value]

    def close(self) -> None:
        """Let the thread end."""
        self.end = self.end or StopIteration()
        self.stop.set()
        self.thread.join()
