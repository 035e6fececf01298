"""ListOps: the rules of Long Range Arena, and values checked by another way of computing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.data.listops import OPERATORS, generate_listops, value_of, write_listops

EXAMPLES = list(generate_listops("train", 60, 1))
FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min, "[MAX": max, "[MED": lambda values: int(np.median(values)), "[SM": lambda values: int(np.sum(values)) % 10
}  # fmt: skip


def nested(symbols: list[str]) -> object:
    """An expression as nested lists, by Python's own parser."""
    python = " ".join({**{name: f"['{name}'," for name in OPERATORS}, "]": "],"}.get(symbol, f"{symbol},") for symbol in symbols)
    (tree,) = eval(python)
    found: object = tree
    return found


def value(tree: object) -> int:
    if isinstance(tree, list):
        return int(FUNCTIONS[tree[0]]([value(part) for part in tree[1:]]))
    assert isinstance(tree, int)
    return tree


def depth(tree: object) -> int:
    return 1 + max(depth(part) for part in tree[1:]) if isinstance(tree, list) else 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[MED 1 2 8 9 ]", 5),
        ("[MED 1 2 ]", 1),
        ("[SM 9 9 [SM 5 6 ] ]", 9),
        ("7", 7),
    ],
)
def test_the_value_of_an_expression(text: str, expected: int) -> None:
    assert value_of(text.split()) == expected


def test_every_expression_follows_the_rules_and_has_its_value() -> None:
    for text, label in EXAMPLES:
        symbols = text.split()
        assert 500 < len(symbols) < 2000
        tree = nested(symbols)
        assert depth(tree) <= 9  # lists inside lists; the tenth level has digits only
        assert label == str(value(tree))
        assert set(symbols) <= {*OPERATORS, "]", *"0123456789"}


def test_lists_have_two_to_ten_arguments_and_every_operator_occurs() -> None:
    sizes: Counter[int] = Counter()

    def count(tree: object) -> None:
        if isinstance(tree, list):
            sizes[len(tree) - 1] += 1
            for part in tree[1:]:
                count(part)

    for text, _ in EXAMPLES:
        count(nested(text.split()))
    assert set(sizes) == set(range(2, 11))
    operators = Counter(symbol for text, _ in EXAMPLES for symbol in text.split() if symbol in OPERATORS)
    assert min(operators.values()) > 0.8 * max(operators.values())


def test_files_depend_on_the_seed_alone_and_share_no_expression(tmp_path: Path) -> None:
    files = write_listops(tmp_path / "a", seed=3, count=5, held_out=4)
    again = write_listops(tmp_path / "b", seed=3, count=5, held_out=4)
    other = write_listops(tmp_path / "c", seed=4, count=5, held_out=4)
    read = {split: list(read_labelled(path, Drops())) for split, path in files.items()}
    assert {split: len(rows) for split, rows in read.items()} == {"train": 5, "valid": 4, "test": 4}
    assert len({text for rows in read.values() for text, _ in rows}) == 13
    assert all(files[split].read_bytes() == again[split].read_bytes() != other[split].read_bytes() for split in files)
