"""The default tagging corpus: the dates of dates.py, each word tagged with the part of the date it belongs to.

It has real words of more than thirty languages and needs no download. There is no shortcut: 11 may be a day, a month or a
year, 日 a weekday or the word for a day, and only the context decides. Dates are split as in dates.py, so a held-out date is
never seen in any form.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from heedful.data.dates import LOCALES, TYPED, ambiguous_forms, dates_of, usable_forms
from heedful.data.splits import write_splits
from heedful.data.words import split_words

TRAINING_DATES = 20_000
HELD_OUT_DATES = 1000
FIELD_TAGS = {"d": "DAY", "M": "MONTH", "y": "YEAR", "E": "WEEKDAY", "c": "WEEKDAY"}  # CLDR field → type of its tags


def tag_parts(parts: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The words and IOB2 tags of a date given as (text, CLDR field) parts.

    A word that crosses the boundary of a field, as in Thai, which has no spaces, gets the tag of that field.
    """
    spans, length = [], 0
    for text, letter in parts:
        spans.append((length, length + len(text), FIELD_TAGS.get(letter, "")))
        length += len(text)
    words, tags, last = [], [], -1
    for word, begin, end in split_words("".join(text for text, _ in parts)):
        inside = [index for index, (first, past, kind) in enumerate(spans) if kind and first < end and begin < past]
        field = inside[0] if inside else -1
        words.append(word)
        tags.append(f"{'I' if field == last else 'B'}-{spans[field][2]}" if inside else "O")
        last = field
    return words, tags


def generate_date_tags(split: str, count: int, seed: int) -> Iterator[tuple[list[str], list[str]]]:
    """`count` dates of a split as (words, tags); forms that cannot be read without naming the language are left out."""
    rng = random.Random(f"date tags {split} {seed}")
    ambiguous = ambiguous_forms()[0]
    forms = {name: [form for form in usable_forms()[name] if form not in ambiguous] for name in LOCALES}
    for _ in range(count):
        form = rng.choice(forms[rng.choice(LOCALES)])
        parts = form.write_parts(rng.choice(dates_of(split, *form.years)))
        if rng.random() < 0.5:  # as people type them
            parts = [(text.translate(TYPED), letter) for text, letter in parts]
        if rng.random() < 0.1:
            parts = [(text.lower(), letter) for text, letter in parts]
        yield tag_parts(parts)


def write_date_tags(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """CoNLL files, one word and its tag per line: `count` training dates (default 20,000), 1,000 validation, 1,000 test."""
    training = TRAINING_DATES if count is None else count
    texts = {}
    for split, number in {"train": training, "valid": HELD_OUT_DATES, "test": HELD_OUT_DATES}.items():
        sentences = generate_date_tags(split, number, seed)
        lines = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*sentence, strict=True)) for sentence in sentences)
        texts[split] = "\n".join(lines)
    return write_splits(folder, "date-tags", "conll", texts)
