"""Names in their languages: none ambiguous, no thing on both sides of a split."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from babel import Locale

from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.data.language_names import LANGUAGES, labelled_names, names_in, write_language_names


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_language_names(tmp_path_factory.mktemp("names"), 1)


@pytest.fixture(scope="module")
def splits(paths: dict[str, Path]) -> dict[str, list[tuple[str, str]]]:
    return {split: list(read_labelled(path, Drops())) for split, path in paths.items()}


def test_the_files_contain_every_name_and_are_read_without_drops(
    paths: dict[str, Path], splits: dict[str, list[tuple[str, str]]]
) -> None:
    drops = Drops()
    for split, path in paths.items():
        assert sorted(read_labelled(path, drops)) == sorted(labelled_names()[split])
    assert not drops.counts
    assert list(splits) == ["train", "valid", "test"]


def test_every_language_has_names_in_every_split(splits: dict[str, list[tuple[str, str]]]) -> None:
    assert 20 <= len(LANGUAGES) <= 30
    for split, least in (("train", 250), ("valid", 8), ("test", 8)):
        counts = Counter(language for _, language in splits[split])
        assert set(counts) == set(LANGUAGES)
        assert min(counts.values()) >= least


def test_a_name_occurs_once_with_the_only_language_that_uses_it(splits: dict[str, list[tuple[str, str]]]) -> None:
    users: dict[str, set[str]] = defaultdict(set)
    for language in LANGUAGES:
        locale = Locale.parse(language)
        for table in (locale.territories, locale.languages, locale.currencies):
            for name in table.values():
                users[name.casefold()].add(language)
    names = [(name.casefold(), language) for rows in splits.values() for name, language in rows]
    assert len({name for name, _ in names}) == len(names)
    assert [name for name, language in names if users[name] - {language}] == []
    assert "brasil" not in {name for name, _ in names}  # Spanish, Portuguese and more
    assert ("deutschland", "de") in names


def test_no_thing_is_named_in_two_splits(splits: dict[str, list[tuple[str, str]]]) -> None:
    things: dict[tuple[str, str], set[str]] = defaultdict(set)
    for language in LANGUAGES:
        for thing, name in names_in(language):
            things[name.casefold(), language].add(thing)
    named = {
        split: {thing for name, language in rows for thing in things[name.casefold(), language]} for split, rows in splits.items()
    }
    assert min(map(len, named.values())) > 50
    for one, other in combinations(named, 2):
        assert named[one] & named[other] == set()


def test_every_script_is_shared_by_two_languages_or_more() -> None:
    from babel.core import get_global

    likely = get_global("likely_subtags")
    scripts = Counter(likely[language].split("_")[1] for language in LANGUAGES)
    assert set(scripts) >= {"Latn", "Cyrl", "Arab", "Deva"}
    # Japanese and Chinese share ideographs under different script names.
    alone = {script for script, count in scripts.items() if count == 1}
    assert alone == {"Jpan", "Hans"}


def test_seed_determines_the_order_and_count_the_training_size(tmp_path: Path, paths: dict[str, Path]) -> None:
    few = write_language_names(tmp_path / "few", 1, 100)
    assert few["train"].read_text().splitlines() == paths["train"].read_text().splitlines()[:100]
    assert few["test"].read_bytes() == paths["test"].read_bytes()
    other = write_language_names(tmp_path / "other", 2)
    assert other["test"].read_bytes() != paths["test"].read_bytes()
    assert sorted(other["test"].read_text().splitlines()) == sorted(paths["test"].read_text().splitlines())
