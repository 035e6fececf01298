"""The default corpus for text classification: which language is this name in? Names from CLDR (through Babel).

Language identification is a task everyone knows. The names of countries, languages, currencies, scripts, cities, months
and weekdays are real words and need no download. There is no shortcut: every script here is used by at least two of the
languages, and some languages are close (Danish and Norwegian, Czech and Slovak, Hindi and Marathi), so a model must learn
what the words of a language look like. For some names one letter decides, for others the whole word is needed.

A name that several of the languages use is left out, because its label would be ambiguous. A hash of its code assigns each
thing to one split in all languages, together with the things that share a name with it (Latin, the script and the language).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from heedful.data.drops import has_control
from heedful.data.splits import SPLIT_NAMES, connected_groups, pick_split, write_splits

LANGUAGES = "ar bg cs da de en es fa fi fr hi hr hu id it ja mr nb nl pl pt ro ru sk sv tr uk ur vi zh".split()
NAME_SPLIT_PERCENTAGES = {"test": 5, "valid": 5, "train": 90}


def names_in(language: str) -> Iterator[tuple[str, str]]:
    """(thing, name) for everything CLDR names in a language: ("territory FI", "Suomi")."""
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
    """Split → sorted (name, language), each name once."""
    languages: dict[str, set[str]] = defaultdict(set)  # case-folded name → languages
    things: dict[str, set[str]] = defaultdict(set)  # thing → "language name"
    written: dict[tuple[str, str], str] = {}  # (folded name, language) → the name as first written
    for language in LANGUAGES:
        for thing, name in names_in(language):
            languages[name.casefold()].add(language)
            if thing.split()[-1].casefold() != name.casefold():  # CLDR repeats the code where it has no name
                things[thing].add(f"{language} {name.casefold()}")
                written.setdefault((name.casefold(), language), name)
    splits: dict[str, set[tuple[str, str]]] = {split: set() for split in NAME_SPLIT_PERCENTAGES}
    for group in connected_groups(things):
        split = pick_split(group[0], NAME_SPLIT_PERCENTAGES)
        for named in (named for thing in group for named in things[thing]):
            language, _, name = named.partition(" ")
            if len(languages[name]) == 1:
                splits[split].add((written[name, language], language))
    return {split: sorted(names) for split, names in splits.items()}


def write_language_names(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """TSV files of names and their languages; at most `count` training names, or all of them."""
    texts = {}
    for split in SPLIT_NAMES:
        names = list(labelled_names()[split])
        random.Random(f"language names {split} {seed}").shuffle(names)
        rows = names[: count if split == "train" else None]
        texts[split] = "".join(f"{name}\t{language}\n" for name, language in rows)
    return write_splits(folder, "language-names", "tsv", texts)
