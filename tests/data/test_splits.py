"""Families and splits: what has anything in common stays together."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from heedful.data.splits import connected_groups, hash_of, write_splits

PARTS = st.dictionaries(st.text(max_size=2), st.sets(st.integers(0, 12).map(str), max_size=3), max_size=12)


def reachable(parts: dict[str, set[str]], name: str) -> set[str]:
    """The names that share a part with `name`, straight or through others, found by walking."""
    found, new = {name}, [name]
    while new:
        here = new.pop()
        near = {other for other in parts if parts[other] & parts[here]} - found
        found |= near
        new += near
    return found


def test_names_that_share_a_part_through_others_are_one_family() -> None:
    parts = {"a": {"1"}, "b": {"1", "2"}, "c": {"2", "3"}, "d": {"4"}, "e": set[str]()}
    assert connected_groups(parts) == [["a", "b", "c"], ["d"], ["e"]]


@given(PARTS)
def test_families_are_the_connected_names_and_every_name_is_in_one(parts: dict[str, set[str]]) -> None:
    found = connected_groups(parts)
    assert sorted(name for family in found for name in family) == sorted(parts)
    for family in found:
        assert set(family) == reachable(parts, family[0])


def test_the_hash_of_a_key_is_the_same_on_every_machine() -> None:
    assert hash_of("territory FI") == 2253344270019854327
    assert hash_of("territory FR") != hash_of("territory FI")


def test_splits_are_files_named_after_them(tmp_path: Path) -> None:
    paths = write_splits(tmp_path / "new" / "folder", "names", "tsv", {"train": "ä\tde\n", "test": ""})
    assert {split: path.name for split, path in paths.items()} == {"train": "names.train.tsv", "test": "names.test.tsv"}
    assert paths["train"].read_bytes() == "ä\tde\n".encode()
