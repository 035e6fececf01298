"""Unusable examples in a user's data: the reasons, and how many of each. Nothing is dropped without being counted."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from heedful.errors import HeedfulError

Row = TypeVar("Row")
LONGEST_TEXT = 100_000  # characters of a sentence or a label
LONGEST_DOCUMENT = 5_000_000  # characters of a document or a passage
LINE_ENDS = str.maketrans("\r\n", "  ")


@dataclass
class Drops:
    """How many examples were dropped and why, with the first place where each reason occurred."""

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
        return f"{self.counts.total():,} dropped: {', '.join(reasons)}"


def reason_to_drop(*texts: str, longest: int = LONGEST_TEXT) -> str | None:
    """Why an example of these texts cannot be used, or None."""
    if not all(text.strip() for text in texts):
        return "empty"
    if any(len(text) > longest for text in texts):
        return f"longer than {longest:,} characters"
    if any(has_control(text.translate(LINE_ENDS)) for text in texts):
        return "with control characters"
    return None


def has_control(text: str) -> bool:
    """Whether a line contains NUL or another control character; tabs are allowed."""
    return not text.isprintable() and any(c != "\t" and unicodedata.category(c) == "Cc" for c in text)


def whole_text(text: str) -> str:
    """Replace lone surrogates, which JSON escapes can contain but UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def at_least_one(rows: Iterator[Row], what: str, path: Path, drops: Drops) -> Iterator[Row]:
    """Pass the rows through; if there are none, raise an error that says why every example was dropped."""
    before = Counter(drops.counts)
    row = None
    for row in rows:
        yield row
    if row is None:
        dropped = [reason for reason, number in drops.counts.items() if number > before[reason]]
        # If an earlier file had the same reason, its first place is in that file and would mislead here.
        where = {reason: "" if before[reason] else f" (first: {drops.first[reason]})" for reason in dropped}
        reasons = [f"{drops.counts[reason] - before[reason]:,} {reason}{where[reason]}" for reason in dropped]
        raise HeedfulError(f"no usable {what} in {path}" + (f": {', '.join(reasons)}" if reasons else ""))
