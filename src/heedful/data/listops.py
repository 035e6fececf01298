"""ListOps by the rules of Long Range Arena (Tay et al., 2020): what is the value of nested lists of digits and operators?

`[MAX 2 9 [MIN 4 7 ] 0 ]` is 9. The operators are MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10). An
argument is another list with probability 1/4 and a digit otherwise; a list has 2 to 10 arguments, the tree of lists and digits
is at most 10 deep, and only expressions of more than 500 and fewer than 2,000 symbols are kept. Nothing is downloaded.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from heedful.data.splits import write_splits

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
END = "]"
LIST_PROBABILITY = 0.25
DEEPEST = 10  # levels of the tree; the last has digits only
MOST_ARGUMENTS = 10
SHORTEST, LONGEST = 500, 2000  # symbols, both excluded
TRAINING_EXAMPLES = 96_000  # as published
HELD_OUT_EXAMPLES = 2000


def generate_expression(rng: random.Random) -> list[str]:
    """The symbols of one expression of the right length."""
    while True:
        symbols = _try_expression(rng)
        if SHORTEST < len(symbols) < LONGEST:
            return symbols


def _try_expression(rng: random.Random) -> list[str]:
    """The symbols of an expression of any length; one that becomes too long ends early."""
    symbols: list[str] = []
    missing = [1]  # arguments that each enclosing list still needs
    while missing and len(symbols) < LONGEST:
        if not missing[-1]:
            missing.pop()
            if missing:
                symbols.append(END)
            continue
        missing[-1] -= 1
        if len(missing) < DEEPEST and rng.random() <= LIST_PROBABILITY:
            symbols.append(rng.choice(OPERATORS))
            missing.append(rng.randint(2, MOST_ARGUMENTS))
        else:
            symbols.append(str(rng.randrange(10)))
    return symbols


def value_of(symbols: list[str]) -> int:
    """The digit that an expression stands for."""
    lists: list[list[int]] = [[]]
    operators: list[str] = []
    for symbol in symbols:
        if symbol in OPERATORS:
            operators.append(symbol)
            lists.append([])
        else:
            value = apply(operators.pop(), lists.pop()) if symbol == END else int(symbol)
            lists[-1].append(value)
    return lists[0][0]


def apply(operator: str, values: list[int]) -> int:
    """The value of a list.

    >>> [apply(operator, [7, 2, 8, 4]) for operator in OPERATORS]
    [2, 8, 5, 1]
    """
    if operator == "[MIN":
        return min(values)
    if operator == "[MAX":
        return max(values)
    return int(median(values)) if operator == "[MED" else sum(values) % 10


def generate_listops(split: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` different (expression, value) of a split; splits share an expression only by an astronomically unlikely chance."""
    rng, known = random.Random(f"listops {split} {seed}"), set[str]()
    while len(known) < count:
        symbols = generate_expression(rng)
        text = " ".join(symbols)
        if text not in known:
            known.add(text)
            yield text, str(value_of(symbols))


def write_listops(folder: Path, seed: int, count: int | None = None, held_out: int = HELD_OUT_EXAMPLES) -> dict[str, Path]:
    """TSV files of expressions and their values: `count` to train on (96,000 as published), and 2,000 to validate and to test."""
    counts = {"train": count or TRAINING_EXAMPLES, "valid": held_out, "test": held_out}
    texts = {
        split: "".join(f"{text}\t{value}\n" for text, value in generate_listops(split, number, seed))
        for split, number in counts.items()
    }
    return write_splits(folder, "listops", "tsv", texts)
