"""Plain text files in blocks that can be tokenised independently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.data.lines import read_lines

BLOCK = 1 << 16  # approximate characters per block


def blocks_of(path: Path) -> Iterator[str]:
    """A file's text in blocks that can be tokenised one by one, because no token would span two of them.

    A block ends at a line end that is followed by a visible character; a very long line is cut at spaces.
    """
    lines: list[str] = []
    size = 0
    for line in _short_lines(path):
        if size >= BLOCK and (line[:1].strip() or (lines and not lines[-1].endswith("\n"))):
            yield "".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield "".join(lines)


def _short_lines(path: Path) -> Iterator[str]:
    """The lines of a file with their ends. A line longer than a block is cut before a space, or anywhere if it has none."""
    for line in read_lines(path, markup=True):
        start = 0
        while len(line) - start > BLOCK:
            end = line.rfind(" ", start + BLOCK // 2, start + BLOCK)
            end = end if end > 0 else start + BLOCK
            yield line[start:end]
            start = end
        yield f"{line[start:]}\n"
