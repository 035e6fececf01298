"""Parallel text: two aligned files, or one TSV or JSONL file of pairs, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from heedful.data.drops import Drops, reason_to_drop, whole_text
from heedful.data.lines import read_json_rows, read_lines
from heedful.errors import HeedfulError

Pair = tuple[str, str]


def read_aligned(source: Path, target: Path) -> Iterator[tuple[str, Pair]]:
    """(where, pair) of two files aligned line by line."""
    sources, targets = read_lines(source), read_lines(target)
    for number, (left, right) in enumerate(zip_longest(sources, targets), 1):
        if left is None or right is None:
            done, rest = number - 1, number + sum(1 for _ in (targets if left is None else sources))
            lines = (done, rest) if left is None else (rest, done)
            raise HeedfulError(
                f"{source} has {lines[0]:,} lines but {target} has {lines[1]:,}; they must be aligned line by line; "
                "`heedful check` finds where they part"
            )
        yield f"{source.name} line {number}", (left, right)


def read_table(path: Path, drops: Drops) -> Iterator[tuple[str, Pair | None]]:
    """(where, pair) of a TSV: source, tab, target; None for a line that holds no pair, which is counted in `drops`."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        columns = line.split("\t")
        if len(columns) != 2:
            drops.add("with a number of columns other than 2", where)
            yield where, None
        else:
            yield where, (columns[0], columns[1])


def read_json_lines(path: Path, drops: Drops, keys: Pair = ("source", "target")) -> Iterator[tuple[str, Pair]]:
    """(where, pair) of a JSONL file: one object per line with the strings "source" and "target", or other `keys`."""
    for where, row in read_json_rows(path, drops):
        pair = (row.get(keys[0]), row.get(keys[1])) if isinstance(row, dict) else (None, None)
        if not isinstance(pair[0], str) or not isinstance(pair[1], str):
            drops.add(f'without the strings "{keys[0]}" and "{keys[1]}"', where)
            continue
        yield where, (whole_text(pair[0]), whole_text(pair[1]))


@dataclass(frozen=True)
class ParallelFiles:
    """The files of a parallel corpus: two aligned files, or one file of pairs."""

    source: Path
    target: Path | None = None  # None if `source` is a TSV or JSONL of pairs
    swapped: bool = False  # each pair is read from its target to its source

    @property
    def paths(self) -> list[Path]:
        return [self.source] if self.target is None else [self.source, self.target]

    @property
    def is_json(self) -> bool:
        """Whether the one file is JSONL."""
        return bool({".jsonl", ".json"} & {suffix.lower() for suffix in self.source.suffixes})

    def _rows(self, drops: Drops) -> Iterator[tuple[str, Pair]] | Iterator[tuple[str, Pair | None]]:
        return read_json_lines(self.source, drops) if self.is_json else read_table(self.source, drops)

    def rows(self, drops: Drops) -> Iterator[tuple[str | None, str | None]]:
        """Every pair of the one file, unchecked. Lines that are not a pair are counted in `drops`; in a TSV they also give
        (None, None)."""
        for _, pair in self._rows(drops):
            yield pair or (None, None)

    def read(self, drops: Drops) -> Iterator[Pair]:
        """Every usable pair, in order; the others are counted in `drops`."""
        rows = self._rows(drops) if self.target is None else read_aligned(self.source, self.target)
        for where, pair in rows:
            if pair is None:
                continue
            reason = reason_to_drop(*pair)
            if reason:
                drops.add(reason, where)
            else:
                source, target = pair
                yield (target, source) if self.swapped else pair
