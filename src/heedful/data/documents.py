"""Whole documents: sentences with their neighbours, for pre-training, and documents with their summaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.data.corpus import Drops, Pair, has_control, read_json_lines, read_lines
from heedful.data.reading import at_least_one, is_broken


def read_documents(path: Path, drops: Drops) -> Iterator[list[str]]:
    """Every document as its lines, in order: a sentence a line, a blank line between documents."""
    yield from at_least_one(_documents(path, drops), "document", path, drops)


def _documents(path: Path, drops: Drops) -> Iterator[list[str]]:
    lines: list[str] = []
    for number, line in enumerate(read_lines(path), 1):
        if has_control(line):
            drops.add("with control characters", f"{path.name} line {number}")
        elif line.strip():
            lines.append(line.strip())
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def read_summaries(path: Path, drops: Drops) -> Iterator[Pair]:
    """Every usable (document, summary) of a JSONL file with the strings "document" and "summary"."""
    yield from at_least_one(_summaries(path, drops), "document with a summary", path, drops)


def _summaries(path: Path, drops: Drops) -> Iterator[Pair]:
    for where, (document, summary) in read_json_lines(path, drops, ("document", "summary")):
        if not document.strip() or not summary.strip():
            drops.add("empty", where)
        elif is_broken(document) or is_broken(summary):
            drops.add("with control characters", where)
        else:
            yield document, summary
