"""Token ids (of pairs, or of texts and their labels) in files: written once, and possibly larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.text import Tokenizer

STRIDE = 64  # the position in the file is kept in memory for every 64th sequence


class TokenArray:
    """Many sequences of ids, concatenated in a file.

    Only the position of every 64th sequence is held in memory. Lengths are memory-mapped, and ids are read on demand:
    mapped, they would eventually all count as resident memory of every process, because the kernel also maps the pages
    around each one that is read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.ids.npy"
        self.ids: np.memmap[tuple[int], np.dtype[np.uint32]] = np.load(path, mmap_mode="r")
        self.lengths: NDArray[np.int32] = np.load(folder / f"{name}.lengths.npy", mmap_mode="r").view(np.ndarray)  # (N,)
        blocks = np.add.reduceat(self.lengths, np.arange(0, len(self.lengths), STRIDE), dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(blocks)])  # of every 64th sequence
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115  # open as long as the array exists

    def __getitem__(self, index: int) -> NDArray[np.uint32]:
        block = index // STRIDE
        start = int(self.starts[block] + self.lengths[block * STRIDE : index].sum())
        size = self.ids.itemsize
        place, count = self.ids.offset + size * start, size * int(self.lengths[index])
        return np.frombuffer(os.pread(self.file.fileno(), count, place), dtype=self.ids.dtype)


class ParallelStore:
    """Source and target ids of the same pairs."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = TokenArray(folder, "source"), TokenArray(folder, "target")

    def __len__(self) -> int:
        return len(self.source.lengths)


class _Writer:
    """Appends sequences to a .npy file whose header is completed at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.ids.npy"
        self.lengths_path = folder / f"{name}.lengths.npy"
        self.file = open(self.path, "wb")  # noqa: SIM115  # `close` closes it
        self.lengths: list[NDArray[np.int32]] = []
        self.header(0)

    def header(self, count: int) -> None:
        self.file.seek(0)
        # The header has the same size for every count, so it can be overwritten at the end.
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<u4", "fortran_order": False, "shape": (count,)})

    def append(self, rows: list[list[int]]) -> None:
        self.lengths.append(np.array([len(row) for row in rows], dtype=np.int32))
        self.file.write(np.fromiter((token for row in rows for token in row), dtype="<u4").tobytes())

    def close(self) -> None:
        lengths = np.concatenate(self.lengths) if self.lengths else np.zeros(0, dtype=np.int32)
        self.header(int(lengths.sum(dtype=np.int64)))
        self.file.close()
        np.save(self.lengths_path, lengths)


def encode_pairs(
    pairs: list[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_length: int,
    drops: Drops,
    cut: bool = False,
) -> list[tuple[Pair, list[int], list[int]]]:
    """(pair, source ids, target ids); pairs with a side over `max_length` tokens are dropped and counted.

    With `cut`, a long source is truncated instead.
    """
    left = source_tokenizer.encode_batch([source for source, _ in pairs])
    if cut:
        left = [ids[:max_length] for ids in left]
    right = target_tokenizer.encode_batch([target for _, target in pairs])
    kept = []
    for pair, source, target in zip(pairs, left, right, strict=True):
        if max(len(source), len(target)) <= max_length:
            kept.append((pair, source, target))
        else:
            drops.add(f"longer than {max_length} tokens", f"the pair that begins “{pair[0][:40]}”")
    return kept


Rows = tuple[list[int], list[int]]


def write_rows(folder: Path, groups: Iterable[list[Rows]]) -> int:
    """Write groups of (source, target) ids to `folder`; returns how many rows there were."""
    sources, targets = _Writer(folder, "source"), _Writer(folder, "target")
    count = 0
    for group in groups:
        sources.append([source for source, _ in group])
        targets.append([target for _, target in group])
        count += len(group)
    sources.close()
    targets.close()
    return count


def write_store(
    folder: Path,
    pairs: Iterable[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_length: int,
    drops: Drops,
    progress: Callable[[int], None],
    cut: bool = False,
) -> int:
    """Tokenise pairs, write their ids to `folder` and return how many were kept."""

    def groups() -> Iterator[list[Rows]]:
        rows = iter(pairs)
        while batch := list(islice(rows, 4096)):
            encoded = encode_pairs(batch, source_tokenizer, target_tokenizer, max_length, drops, cut)
            yield [(source, target) for _, source, target in encoded]
            progress(len(batch))

    return write_rows(folder, groups())
