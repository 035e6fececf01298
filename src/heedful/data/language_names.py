"""The default corpus of text classification: in which language is this name? Names from CLDR (through Babel).

Language identification is a task everyone knows. The names of countries, languages, currencies, scripts, cities,
months and weekdays are real words that people of each country agreed on, and need no download. No trick solves it: every
script here is shared by two languages or more, and the neighbours are close (Danish and Norwegian, Czech and Slovak, Hindi
and Marathi), so a model must learn how words of a language look. Some names are settled by one letter, some need them all.

A name that several of the languages use is left out, since nobody could tell. A thing belongs to one split for good in all
languages, by a hash of its code, together with the things that share a name with it (Latin, the script and the language).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from heedful.data.drops import has_control
from heedful.data.splits import families, hash_of, write_splits

LANGUAGES = "ar bg cs da de en es fa fi fr hi hr hu id it ja mr nb nl pl pt ro ru sk sv tr uk ur vi zh".split()
SPLITS = {"test": (0, 5), "valid": (5, 10), "train": (10, 100)}  # per cent of all things


def names_in(language: str) -> Iterator[tuple[str, str]]:
    """(thing, name) of all that CLDR names in a language: ("territory FI", "Suomi")."""
    from babel import Locale

    locale = Locale.parse(language)
    tables = {
        "territory": locale.territories,
        "language": locale.languages,
        "currency": locale.currencies,
        "script": locale.scripts,
        "month": locale.months["stand-alone"]["wide"],
        "weekday": locale.days["stand-alone"]["wide"],
        "city": {zone: names.get("city", "") for zone, names in locale.time_zones.items()},
    }
    for kind, names in tables.items():
        for code in sorted(names, key=str):
            name = " ".join(str(names[code]).split())
            if any(c.isalpha() for c in name) and not has_control(name):
                yield f"{kind} {code}", name


@cache
def labelled_names() -> dict[str, list[tuple[str, str]]]:
    """Split → (name, language), every name once; sorted."""
    languages: dict[str, set[str]] = defaultdict(set)  # of each name, whatever its case
    things: dict[str, set[str]] = defaultdict(set)  # thing → "language name"
    written: dict[tuple[str, str], str] = {}  # (folded name, language) → the name as first written
    for language in LANGUAGES:
        for thing, name in names_in(language):
            languages[name.casefold()].add(language)
            if thing.split()[-1].casefold() != name.casefold():  # a code for a name is no word of any language
                things[thing].add(f"{language} {name.casefold()}")
                written.setdefault((name.casefold(), language), name)
    splits: dict[str, set[tuple[str, str]]] = {split: set() for split in SPLITS}
    for family in families(things):
        bucket = hash_of(family[0]) % 100
        split = next(split for split, (low, high) in SPLITS.items() if low <= bucket < high)
        for named in (named for thing in family for named in things[thing]):
            language, _, name = named.partition(" ")
            if len(languages[name]) == 1:
                splits[split].add((written[name, language], language))
    return {split: sorted(names) for split, names in splits.items()}


def write_language_names(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """TSV files of a name and its language; of the training names at most `count`, all when it is not given."""
    texts = {}
    for split in ("train", "valid", "test"):
        names = list(labelled_names()[split])
        random.Random(f"language names {split} {seed}").shuffle(names)
        rows = names[: count if split == "train" else None]
        texts[split] = "".join(f"{name}\t{language}\n" for name, language in rows)
    return write_splits(folder, "language-names", "tsv", texts)
