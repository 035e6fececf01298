"""Batches of sequences of similar length, limited by a token budget, in an order that depends only on seed and epoch.

A position in the data is therefore just (epoch, batch), and every process can compute the batches of all others.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.data.bpe_dropout import BpeDropout
from heedful.data.collation import Batch, SpecialIds, collate
from heedful.data.token_store import ParallelStore
from heedful.errors import HeedfulError

POOL = 1 << 20  # pairs that are sorted by length together
Indices = NDArray[np.int64]


def plan_epoch(
    source_lengths: NDArray[np.int32],
    target_lengths: NDArray[np.int32],
    batch_tokens: int,
    seed: int,
    epoch: int,
    most: int = 0,
) -> Iterator[Indices]:
    """Batches of pair indices whose padded size, on the longer side, is at most `batch_tokens` (or a single pair).

    Every pair occurs exactly once: pairs are shuffled, sorted by length within large pools and cut into batches, which are
    shuffled in turn. `most` limits the number of pairs per batch; 0 means no limit.
    """
    rng = np.random.default_rng([seed, epoch])
    order = np.arange(len(source_lengths), dtype=np.min_scalar_type(len(source_lengths)))  # the smallest type, to save memory
    rng.shuffle(order)
    for start in range(0, len(order), POOL):
        pool = order[start : start + POOL].astype(np.int64)
        sources, targets = source_lengths[pool], target_lengths[pool]
        widths = np.maximum(sources, targets) + 1  # + 1 for the begin or end token
        narrow = np.min_scalar_type(widths.max())  # NumPy sorts 16-bit integers five times as fast as 32-bit ones
        # Source lengths alternately ascend and descend from one target length to the next, so that a batch that spans two
        # target lengths has similar source lengths.
        there_and_back = np.where(targets % 2, sources.max() - sources, sources)
        by_length = np.lexsort((there_and_back.astype(narrow), targets.astype(narrow)))
        pool, widths = pool[by_length], widths[by_length]
        cuts = [0]
        while cuts[-1] < len(pool):
            room = max(1, batch_tokens // int(widths[cuts[-1]]))
            ahead = widths[cuts[-1] : cuts[-1] + (min(room, most) if most else room)]
            sizes = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)  # padded size so far
            cuts.append(cuts[-1] + max(1, int(np.searchsorted(sizes, batch_tokens, side="right"))))
        for cut in rng.permutation(len(cuts) - 1):
            yield pool[cuts[cut] : cuts[cut + 1]]


@dataclass(frozen=True)
class Position:
    """How far the data has been read: an epoch, and the number of its batches already taken."""

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
    """This process's share of every batch from `position` on, without end, each with the position after it.

    `plan` gives the batches of an epoch as indices, and `make` turns indices (and the epoch) into tensors. The examples of
    a batch are distributed round-robin over the processes; a share may be empty (None).
    """
    epoch, skip = position.epoch, position.batch
    while True:
        number = 0
        for number, indices in enumerate(plan(epoch), 1):
            if number > skip:
                mine = indices[rank::world]
                yield Position(epoch, number), make(mine, epoch) if len(mine) else None
        if not number:
            raise HeedfulError("there is nothing to train on: an epoch has no batch")
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


@dataclass(frozen=True)
class End:
    """Marks the end of a `Prefetch`: the exception that ended its iterator, StopIteration at the normal end."""

    error: BaseException


class Prefetch(Generic[T]):
    """Runs an iterator ahead in a thread, and measures how long the consumer has waited."""

    def __init__(self, items: Iterator[T], ahead: int = 8) -> None:
        self.queue: queue.Queue[T | End] = queue.Queue(ahead)
        self.stop = threading.Event()
        self.waited = 0.0
        self.end: BaseException | None = None
        self.thread = threading.Thread(target=self._fill, args=(items,), daemon=True)
        self.thread.start()

    def _fill(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if not self._put(item):
                    return
            self._put(End(StopIteration()))
        except BaseException as error:  # raised again in the consumer
            self._put(End(error))

    def _put(self, entry: T | End) -> bool:
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
        item = self.queue.get()
        self.waited += time.perf_counter() - start
        if isinstance(item, End):
            self.end = item.error
            raise self.end
        return item

    def close(self) -> None:
        """Stop the thread."""
        self.end = self.end or StopIteration()
        self.stop.set()
        self.thread.join()
