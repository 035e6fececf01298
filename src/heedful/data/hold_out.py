"""Which training examples are held out for validation when no validation file is given.

A hash of its text decides for each example, so that equal texts are never on both sides and a run can be repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

from heedful.data.parallel import Pair
from heedful.data.splits import hash_of
from heedful.errors import HeedfulError

Example = TypeVar("Example")


def hold_out(examples: list[Example], text_of: Callable[[Example], str], wanted: int) -> tuple[list[Example], list[Example]]:
    """(training, held-out): those whose texts have the smallest hashes are held out, at most a tenth.

    A text that occurs several times is always on one side.
    """
    wanted = max(1, min(wanted, len(examples) // 10))
    hashes = [hash_of(text_of(example)) for example in examples]
    limit = sorted(hashes)[wanted - 1]
    held = [example for example, value in zip(examples, hashes, strict=True) if value <= limit]
    kept = [example for example, value in zip(examples, hashes, strict=True) if value > limit]
    if not kept:
        raise HeedfulError("the examples are too few or too alike to hold some out for validation; give data.valid=FILE")
    return kept, held


def pair_hash(pair: Pair) -> int:
    """A hash of the source alone, so that a repeated source is on one side of the split whatever its translations."""
    return hash_of(pair[0].strip())


def held_out_limit(pairs: Iterable[Pair], wanted: int, progress: Callable[[int], None]) -> tuple[int, int]:
    """(limit, pairs): pairs whose hash is at most `limit` are held out, about `wanted` of them and at most a tenth.

    Reads the pairs once and keeps only some hashes in memory.
    """
    smallest: list[int] = []  # a max-heap (negated) of the `wanted` smallest distinct hashes, and at least two
    with_hash: dict[int, int] = {}  # hash in the heap → how many pairs have it
    count = 0
    for pair in pairs:
        count += 1
        progress(1)
        value = pair_hash(pair)
        if value in with_hash:
            with_hash[value] += 1
        elif len(smallest) < max(wanted, 2):
            heapq.heappush(smallest, -value)
            with_hash[value] = 1
        elif value < -smallest[0]:
            del with_hash[-heapq.heappushpop(smallest, -value)]
            with_hash[value] = 1
    if len(smallest) == 1:
        raise HeedfulError("one distinct source is not enough to hold out a validation pair; give data.valid_source")
    limit, taken = -1, 0
    for value in sorted(with_hash):
        taken += with_hash[value]
        if limit >= 0 and taken > min(wanted, count // 10):
            break
        limit = value
    return limit, count
