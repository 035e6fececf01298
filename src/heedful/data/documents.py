"""Whole documents: consecutive sentences for pre-training, and documents with their summaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.data.drops import LONGEST_DOCUMENT, Drops, at_least_one, reason_to_drop
from heedful.data.lines import read_lines
from heedful.data.parallel import Pair, read_json_lines


def read_documents(path: Path, drops: Drops) -> Iterator[list[str]]:
    """Every document as a list of sentences. The file has one sentence per line and a blank line between documents."""
    yield from at_least_one(_documents(path, drops), "document", path, drops)


def _documents(path: Path, drops: Drops) -> Iterator[list[str]]:
    lines: list[str] = []
    for number, line in enumerate(read_lines(path), 1):
        reason = reason_to_drop(line) if line.strip() else None
        if reason:
            drops.add(reason, f"{path.name} line {number}")
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
        reason = reason_to_drop(document, summary, longest=LONGEST_DOCUMENT)
        if reason:
            drops.add(reason, where)
        else:
            yield document, summary
