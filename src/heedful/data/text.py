"""Plain text files as they stand, in blocks that may be tokenised one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.data.corpus import read_lines

BLOCK = 1 << 16  # characters, about


def blocks_of(path: Path) -> Iterator[str]:
    """A file's text in pieces. A piece ends with a line, and before one that begins with a visible character: there no
    tokenizer would make one token of both sides."""
    lines: list[str] = []
    size = 0
    for line in read_lines(path):
        if size >= BLOCK and line[:1].strip():
            yield "".join(lines)
            lines, size = [], 0
        lines.append(f"{line}\n")
        size += len(line) + 1
    if lines:
        yield "".join(lines)
