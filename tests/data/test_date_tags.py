"""Tagged dates: an independent reader confirms every tag, and no date is on both sides of a split."""

from __future__ import annotations

import datetime
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from babel import Locale
from babel.dates import DateTimeFormat

from heedful.data.conll import read_conll
from heedful.data.date_tags import generate_date_tags, tag_parts, write_date_tags
from heedful.data.dates import LOCALES, split_of, usable_forms
from heedful.data.drops import Drops

Sentence = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def train() -> list[Sentence]:
    return list(generate_date_tags("train", 4000, 1))


def joined(sentence: Sentence, kind: str) -> str:
    return " ".join(word for word, tag in zip(*sentence, strict=True) if tag[2:] == kind)


def number(text: str) -> int:
    return int("".join(str(unicodedata.digit(character)) for character in text))


def month_names() -> dict[str, set[int]]:
    """Every month's name in every language, as case-folded words → its number."""
    names: dict[str, set[int]] = {}
    for locale in map(Locale.parse, LOCALES):
        for widths in locale.months.values():
            for width in ("wide", "abbreviated"):
                for month, name in widths[width].items():
                    words = " ".join(tag_parts([(name, "M")])[0])
                    names.setdefault(words.lower(), set()).add(month)
    return names


def test_the_parts_of_a_date_concatenate_to_the_written_date() -> None:
    for forms in usable_forms().values():
        for form in forms:
            for date in (datetime.date(2026, 11, 15), datetime.date(1987, 3, 4)):
                whole = form.pattern % DateTimeFormat(date, form.locale)
                if form.zero is not None:
                    whole = "".join(chr(form.zero + int(c)) if c in "0123456789" else c for c in whole)
                assert form.write(date) == whole


def test_full_german_english_and_japanese_dates_are_tagged_as_a_person_would() -> None:
    found = {}
    for name in ("de", "en", "ja"):
        full = Locale.parse(name).date_formats["full"].format
        form = next(form for form in usable_forms()[name] if form.pattern == full)
        found[name] = tag_parts(form.write_parts(datetime.date(2026, 11, 15)))
    assert found["de"] == (
        ["Sonntag", ",", "15", ".", "November", "2026"],
        ["B-WEEKDAY", "O", "B-DAY", "O", "B-MONTH", "B-YEAR"],
    )
    assert found["en"] == (
        ["Sunday", ",", "November", "15", ",", "2026"],
        ["B-WEEKDAY", "O", "B-MONTH", "B-DAY", "O", "B-YEAR"],
    )
    assert found["ja"] == (
        ["2026", "年", "11", "月", "15", "日", "日", "曜", "日"],
        ["B-YEAR", "O", "B-MONTH", "O", "B-DAY", "O", "B-WEEKDAY", "I-WEEKDAY", "I-WEEKDAY"],
    )


def test_the_second_word_of_a_month_gets_an_inside_tag() -> None:
    words, tags = tag_parts([("15", "d"), (" ", ""), ("tháng 11", "M"), (", ", ""), ("2026", "y")])
    assert words == ["15", "tháng", "11", ",", "2026"]
    assert tags == ["B-DAY", "B-MONTH", "I-MONTH", "O", "B-YEAR"]


def test_two_adjacent_fields_of_one_type_are_two_spans() -> None:
    assert tag_parts([("3", "d"), (" ", ""), ("4", "d")])[1] == ["B-DAY", "B-DAY"]


def test_a_word_across_a_field_boundary_belongs_to_that_field() -> None:
    assert tag_parts([("ב", ""), ("מרץ", "M"), (" ", ""), ("1987", "y")]) == (["במרץ", "1987"], ["B-MONTH", "B-YEAR"])


def test_days_months_and_years_are_valid_and_from_the_training_split(train: list[Sentence]) -> None:
    names, checked = month_names(), 0
    for sentence in train:
        day, year, month = number(joined(sentence, "DAY")), joined(sentence, "YEAR"), joined(sentence, "MONTH")
        assert 1 <= day <= 31
        assert len(year) in (2, 4)
        months = {number(month)} if month.isdigit() else names.get(month.lower(), set())
        if months and len(year) == 4:
            dates = [datetime.date(number(year), m, day) for m in months if day <= 28 or m in (1, 3, 5, 7, 8, 10, 12)]
            assert not dates or any(split_of(date) == "train" for date in dates)
            checked += bool(dates)
    assert checked > 2500


def test_every_sentence_has_a_day_a_month_and_a_year_once(train: list[Sentence]) -> None:
    for words, tags in train:
        begun = Counter(tag for tag in tags if tag.startswith("B-"))
        assert begun["B-DAY"] == begun["B-MONTH"] == begun["B-YEAR"] == 1
        assert begun["B-WEEKDAY"] <= 1
        assert set(begun) <= {"B-DAY", "B-MONTH", "B-YEAR", "B-WEEKDAY"}
        for before, tag in zip(["O", *tags], tags, strict=False):
            assert not tag.startswith("I-") or before[2:] == tag[2:], words


def test_the_same_words_always_have_the_same_tags(train: list[Sentence]) -> None:
    seen: dict[tuple[str, ...], list[str]] = {}
    for words, tags in [*train, *generate_date_tags("valid", 1000, 1), *generate_date_tags("test", 1000, 1)]:
        assert seen.setdefault(tuple(words), tags) == tags


def test_a_held_out_date_is_never_trained_on_in_the_same_words(train: list[Sentence]) -> None:
    held_out = {" ".join(words) for split in ("valid", "test") for words, _ in generate_date_tags(split, 1000, 1)}
    assert len(held_out) > 1500
    assert held_out.isdisjoint(" ".join(words) for words, _ in train)


def test_the_files_read_back_as_they_were_written(tmp_path: Path, train: list[Sentence]) -> None:
    paths = write_date_tags(tmp_path, 1, 300)
    drops = Drops()
    read = {split: list(read_conll(path, drops)) for split, path in paths.items()}
    assert {split: len(sentences) for split, sentences in read.items()} == {"train": 300, "valid": 1000, "test": 1000}
    assert read["train"] == train[:300]
    assert not drops.counts
    assert write_date_tags(tmp_path / "again", 1, 300)["test"].read_bytes() == paths["test"].read_bytes()
    assert write_date_tags(tmp_path / "other", 2, 300)["test"].read_bytes() != paths["test"].read_bytes()
