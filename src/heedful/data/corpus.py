"""Parallel text from two aligned files, one TSV or one JSONL, plain or gzip; what cannot be used is counted, not guessed."""

from __future__ import annotations

import gzip
import io
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from heedful.errors import HeedfulError

Pair = tuple[str, str]
BOM = b"\xef\xbb\xbf"


@dataclass
class Drops:
    """How many pairs were left out and why, with the first place of each reason."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, where: str) -> None:
        self.counts[reason] += 1
        self.first.setdefault(reason, where)

    def describe(self) -> str:
        """`3 dropped: 2 empty (first: a.txt line 7), 1 with control characters (…)`, or an empty string."""
        if not self.counts:
            return ""
        reasons = [f"{n:,} {reason} (first: {self.first[reason]})" for reason, n in self.counts.most_common()]
        return f"{sum(self.counts.values()):,} dropped: {', '.join(reasons)}"


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """A file's bytes, unpacked when it is gzip; trouble with it becomes one sentence."""
    try:
        with open(path, "rb") as raw:
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"  # a pipe cannot be wound back
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw)) if zipped else raw
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedfulError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise HeedfulError(f"{path} is a directory; a text file is needed") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise HeedfulError(f"{path} is a damaged gzip file: {error}") from error
    except PermissionError as error:
        raise HeedfulError(f"{path} may not be read: {error.strerror}") from error


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; Windows line ends and a byte-order mark are taken off."""
    with open_text(path) as file:
        empty = True
        for number, line in enumerate(file, 1):
            empty = False
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise HeedfulError(f"{path} is UTF-16; save it as UTF-8")
                line = line.removeprefix(BOM)
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise HeedfulError(
                    f"{path} line {number} is not valid UTF-8 (byte {error.start + 1} is 0x{error.object[error.start]:02x}); "
                    "convert the file to UTF-8"
                ) from error
        if empty:
            raise HeedfulError(f"{path} is empty")


def read_aligned(source: Path, target: Path) -> Iterator[tuple[str, Pair]]:
    """Pairs of two files, line by line, each with where it stands."""
    sources, targets = read_lines(source), read_lines(target)
    for number, (left, right) in enumerate(zip_longest(sources, targets), 1):
        if left is None or right is None:
            done, rest = number - 1, number + sum(1 for _ in (targets if left is None else sources))
            lines = (done, rest) if left is None else (rest, done)
            raise HeedfulError(
                f"{source} has {lines[0]:,} lines but {target} has {lines[1]:,}; they must be aligned line by line"
            )
        yield f"{source.name} line {number}", (left, right)


def read_table(path: Path, drops: Drops) -> Iterator[tuple[str, Pair]]:
    """Pairs of a TSV: source, tab, target."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        columns = line.split("\t")
        if len(columns) != 2:
            drops.add("with a number of columns other than 2", where)
            continue
        yield where, (columns[0], columns[1])


def read_json_rows(path: Path, drops: Drops) -> Iterator[tuple[str, Any]]:
    """What each line of a JSONL file holds, with where it stands."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        if not line.strip():
            drops.add("empty", where)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise HeedfulError(f"{path} line {number} is not JSON: {error}") from error
        yield where, row


def read_json_lines(path: Path, drops: Drops, keys: Pair = ("source", "target")) -> Iterator[tuple[str, Pair]]:
    """Pairs of a JSONL file: an object a line with the strings "source" and "target", or those of other `keys`."""
    for where, row in read_json_rows(path, drops):
        pair = (row.get(keys[0]), row.get(keys[1])) if isinstance(row, dict) else (None, None)
        if not isinstance(pair[0], str) or not isinstance(pair[1], str):
            drops.add(f'without the strings "{keys[0]}" and "{keys[1]}"', where)
            continue
        yield where, (whole_text(pair[0]), whole_text(pair[1]))


def whole_text(text: str) -> str:
    """JSON may smuggle in half a surrogate pair, which is no text and cannot be written out again."""
    return text.encode("utf-8", "replace").decode()


def has_control(text: str) -> bool:
    """Whether a line holds NUL or another control character; a tab is ordinary."""
    return not text.isprintable() and any(c != "\t" and unicodedata.category(c) == "Cc" for c in text)


@dataclass(frozen=True)
class ParallelFiles:
    """Where a parallel corpus is: two aligned files, or one file of pairs."""

    source: Path
    target: Path | None = None  # None: `source` is a TSV or JSONL of pairs

    @property
    def paths(self) -> list[Path]:
        return [self.source] if self.target is None else [self.source, self.target]

    def read(self, drops: Drops) -> Iterator[Pair]:
        """Every usable pair, in order; the others are counted in `drops`."""
        if self.target is not None:
            rows = read_aligned(self.source, self.target)
        elif {".jsonl", ".json"} & {suffix.lower() for suffix in self.source.suffixes}:
            rows = read_json_lines(self.source, drops)
        else:
            rows = read_table(self.source, drops)
        for where, (source, target) in rows:
            if not source.strip() or not target.strip():
                drops.add("empty", where)
            elif has_control(source) or has_control(target):
                drops.add("with control characters", where)
            else:
                yield source, target
