"""Splits: names that share anything stay together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.splits import connected_groups, hash_of, pick_split, write_splits

PARTS = st.dictionaries(st.text(max_size=2), st.sets(st.integers(0, 12).map(str), max_size=3), max_size=12)


def reachable(parts: dict[str, set[str]], name: str) -> set[str]:
    """The names that share a part with `name`, directly or through others, found by graph search."""
    found, new = {name}, [name]
    while new:
        here = new.pop()
        near = {other for other in parts if parts[other] & parts[here]} - found
        found |= near
        new += near
    return found


def test_names_that_share_a_part_through_others_are_one_group() -> None:
    parts = {"a": {"1"}, "b": {"1", "2"}, "c": {"2", "3"}, "d": {"4"}, "e": set[str]()}
    assert connected_groups(parts) == [["a", "b", "c"], ["d"], ["e"]]


@given(PARTS)
def test_groups_are_the_connected_components_and_cover_every_name(parts: dict[str, set[str]]) -> None:
    found = connected_groups(parts)
    assert sorted(name for group in found for name in group) == sorted(parts)
    for group in found:
        assert set(group) == reachable(parts, group[0])


def test_the_hash_of_a_key_is_the_same_on_every_machine() -> None:
    assert hash_of("territory FI") == 2253344270019854327
    assert hash_of("territory FR") != hash_of("territory FI")


def test_splits_have_about_their_percentages_of_the_keys() -> None:
    percentages = {"test": 5, "valid": 15, "train": 80}
    found = Counter(pick_split(str(number), percentages) for number in range(10_000))
    assert all(abs(found[split] / 100 - percentage) < 2 for split, percentage in percentages.items())
    with pytest.raises(ValueError, match="do not sum to 100"):
        [pick_split(str(number), {"test": 5, "train": 85}) for number in range(1000)]


def test_splits_are_files_named_after_them(tmp_path: Path) -> None:
    paths = write_splits(tmp_path / "new" / "folder", "names", "tsv", {"train": "ä\tde\n", "test": ""})
    assert {split: path.name for split, path in paths.items()} == {"train": "names.train.tsv", "test": "names.test.tsv"}
    assert paths["train"].read_bytes() == "ä\tde\n".encode()
