"""Generated dates: correct, unambiguous, and never on both sides of a split."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections import Counter, defaultdict
from itertools import product

import pytest
from babel import Locale
from babel.dates import get_date_format, parse_date

from heedful.data.dates import (
    DATE_SPLIT_PERCENTAGES,
    LOCALES,
    ZEROS,
    ambiguous_forms,
    generate_dates,
    language_tags,
    split_of,
    usable_forms,
)
from heedful.data.drops import has_control
from heedful.data.parallel import Pair

TAGGED = re.compile(r"<([\w-]+)> (.*)", re.DOTALL)
NUMBER = re.compile(r"\d+")


@pytest.fixture(scope="module")
def train() -> list[Pair]:
    return list(generate_dates("train", 40_000, 1))


def numbers_in(text: str) -> list[str]:
    """Every run of digits, of any script, in ASCII."""
    return ["".join(str(unicodedata.digit(character)) for character in run) for run in NUMBER.findall(text)]


def read_date(text: str, locale: Locale) -> str:
    """An independent reader to ISO 8601: digits by unicodedata, the order by the locale's short form, months by name."""
    text = text.replace("\u200f", "").replace("\u200e", "").lower()
    # Remove weekdays first: the Vietnamese ones contain digits, and the Turkish Saturday contains a March.
    for width in ("wide", "abbreviated"):
        weekdays = [name.lower() for use in locale.days.values() for name in use[width].values()]
        there = [name for name in weekdays if (text.startswith(name) if width == "abbreviated" else name in text)]
        text = text.replace(max(there, key=len, default=" "), " ", 1)
    numbers = numbers_in(text)
    if len(numbers) == 3:
        short = get_date_format("short", locale=locale).pattern
        found = dict(zip(sorted("yMd", key=short.index), numbers, strict=True))
        year, month, day = int(found["y"]), int(found["M"]), int(found["d"])
        year += 0 if len(found["y"]) == 4 else 2000 if year < 50 else 1900
    else:
        assert len(numbers) == 2, text
        year, day = (int(number) for number in sorted(numbers, key=len, reverse=True))
        widths = [use[width] for use in locale.months.values() for width in ("wide", "abbreviated")]
        month = max((len(name), month) for names in widths for month, name in names.items() if name.lower() in text)[1]
    return f"{year:04}-{month:02}-{day:02}"


def test_there_are_at_least_25_languages(train: list[Pair]) -> None:
    languages = {name.split("_")[0] for name in LOCALES}
    assert len(languages) >= 25
    tags = {found[1] for text, _ in train if (found := TAGGED.match(text))}
    assert tags == {name.replace("_", "-") for name in LOCALES}
    assert language_tags() == sorted(f"<{tag}>" for tag in tags)


def test_every_target_is_the_date_as_an_independent_reader_finds_it(train: list[Pair]) -> None:
    read: Counter[str] = Counter()
    for text, iso in train:
        if found := TAGGED.match(text):
            assert read_date(found[2], Locale.parse(found[1], sep="-")) == iso, text
            read[found[1]] += 1
    assert min(read.values()) >= 20
    assert len(read) == len(LOCALES)


def test_short_english_and_german_dates_are_read_alike_by_babel(train: list[Pair]) -> None:
    checked = 0
    for text, iso in train:
        found = TAGGED.match(text)
        if found and found[1] in ("en", "en-GB", "de", "fr", "nl") and re.fullmatch(r"[\d/.-]+", found[2]):
            date = parse_date(found[2], locale=Locale.parse(found[1], sep="-"), format="short")
            year = f"{date.year:04}" if len(NUMBER.findall(found[2])[-1]) == 4 else f"{date.year % 100:02}"
            assert (year, date.month, date.day) == (iso[4 - len(year) : 4], int(iso[5:7]), int(iso[8:]))
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("split", list(DATE_SPLIT_PERCENTAGES))
def test_every_date_belongs_to_the_split_it_was_generated_for(split: str) -> None:
    for _, iso in generate_dates(split, 2000, 1):
        assert split_of(datetime.date.fromisoformat(iso)) == split


def test_a_held_out_date_never_occurs_in_training_in_any_form(train: list[Pair]) -> None:
    trained = {iso for _, iso in [*train, *generate_dates("train", 10_000, 2)]}
    held_out = {split: {iso for _, iso in generate_dates(split, 3000, 1)} for split in ("valid", "test")}
    assert len(held_out["valid"]) > 700
    assert len(held_out["test"]) > 1400
    assert not trained & (held_out["valid"] | held_out["test"])
    assert not held_out["valid"] & held_out["test"]


def test_the_split_depends_on_the_date_alone_and_is_about_97_1_2() -> None:
    dates = [datetime.date(1900, 1, 1) + datetime.timedelta(days=number) for number in range(20_000)]
    splits = [split_of(date) for date in dates]
    assert splits == [split_of(datetime.date.fromisoformat(date.isoformat())) for date in dates]
    shares = {name: count / len(dates) for name, count in Counter(splits).items()}
    assert shares == pytest.approx({"train": 0.97, "valid": 0.01, "test": 0.02}, abs=0.005)


def test_two_digit_years_are_from_1950_to_2049(train: list[Pair]) -> None:
    years = [int(iso[:4]) for text, iso in train if max(map(len, numbers_in(text))) < 4]
    assert len(years) > 500
    assert min(years) >= 1950
    assert max(years) <= 2049
    others = {int(iso[:4]) for text, iso in train if max(map(len, numbers_in(text))) == 4}
    assert (min(others), max(others)) == (1800, 2199)


def test_no_text_means_two_dates(train: list[Pair]) -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    for text, iso in train:
        meanings[text].add(iso)
    assert [text for text, dates in meanings.items() if len(dates) > 1] == []


def test_no_untagged_form_writes_a_date_as_another_form_writes_a_different_one() -> None:
    # Days, months and years that can be mistaken for each other, of one digit and of two; and every month's name.
    alike = (3, 4, 5, 10, 11, 12)
    dates = [datetime.date(2000 + year, month, day) for year, month, day in product(alike, alike, alike)]
    dates += [datetime.date(year, month, day) for year, month, day in product((1999, 2026), range(1, 13), (7, 21))]
    tagged = ambiguous_forms()[0]
    meanings: dict[str, set[datetime.date]] = defaultdict(set)
    for forms in usable_forms().values():
        for form in forms:
            if form not in tagged:
                for date in dates:
                    meanings[form.write(date)].add(date)
    assert [text for text, meant in meanings.items() if len(meant) > 1] == []


def test_a_date_such_as_3_4_26_always_carries_its_language(train: list[Pair]) -> None:
    slashed = re.compile(r"(<([\w-]+)> )?[0-9]{1,2}/[0-9]{1,2}/[0-9]{2}")
    found = [match for text, _ in train if (match := slashed.fullmatch(text))]
    assert {match[2] for match in found} >= {"en", "es", "it"}
    assert None not in {match[2] for match in found}


def test_about_one_in_ten_unambiguous_dates_carries_its_tag_too(train: list[Pair]) -> None:
    german = [text for text, _ in train if re.search(r"\d+\. (Januar|März|Juni|Oktober) \d{4}", text)]
    share = sum(text.startswith("<de>") for text in german) / len(german)
    assert 0.03 < share < 0.2


@pytest.mark.parametrize("script", sorted(ZEROS))
def test_dates_are_also_written_in_their_own_digits(script: str, train: list[Pair]) -> None:
    digits = {chr(ZEROS[script] + value) for value in range(10)}
    assert [unicodedata.digit(digit) for digit in sorted(digits)] == list(range(10))
    assert sum(not digits.isdisjoint(text) for text, _ in train) > 100


def test_half_are_as_people_type_them_and_some_are_in_lower_case(train: list[Pair]) -> None:
    arabic = [text for text, _ in train if re.search(r"\d\u200f?/\d+\u200f?/\d{4}", text) and "<ar>" in text]
    marked = sum("\u200f" in text for text in arabic) / len(arabic)
    assert 0.3 < marked < 0.7
    english = [text for text, _ in train if re.search(r"(january|october), ?|(january|october) \d", text, re.IGNORECASE)]
    lower = sum(text == text.lower() for text in english) / len(english)
    assert 0.02 < lower < 0.25


def test_every_pair_fits_in_a_tsv_line(train: list[Pair]) -> None:
    assert all(text.strip() and "\t" not in text and not has_control(text) for text, _ in train)


def test_the_same_seed_gives_the_same_corpus_and_another_seed_a_different_one(train: list[Pair]) -> None:
    assert list(generate_dates("train", 500, 1)) == train[:500]
    assert list(generate_dates("train", 500, 2)) != train[:500]
