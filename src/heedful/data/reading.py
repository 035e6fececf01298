"""What the readers of users' files have in common: text that can be used, and an error when there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from heedful.data.corpus import Drops, has_control
from heedful.errors import HeedfulError

Row = TypeVar("Row")
LINE_ENDS = str.maketrans("\r\n", "  ")


def is_broken(text: str) -> bool:
    """Whether a text of one or more lines holds NUL or another control character."""
    return has_control(text.translate(LINE_ENDS))


def at_least_one(rows: Iterator[Row], what: str, path: Path, drops: Drops) -> Iterator[Row]:
    """The rows as they come; an error with the reasons for what was dropped when none comes."""
    before = Counter(drops.counts)
    row = None
    for row in rows:
        yield row
    if row is None:
        dropped = [reason for reason, number in drops.counts.items() if number > before[reason]]
        # A reason that another file also gave has its first place there.
        where = {reason: "" if before[reason] else f" (first: {drops.first[reason]})" for reason in dropped}
        reasons = [f"{drops.counts[reason] - before[reason]:,} {reason}{where[reason]}" for reason in dropped]
        raise HeedfulError(f"no usable {what} in {path}" + (f": {', '.join(reasons)}" if reasons else ""))
