"""The default corpus: dates as people write them, in CLDR's patterns (through Babel) → ISO 8601.

Nothing is downloaded, and any number of examples can be generated. A hash of the date itself decides its split, so a
held-out date never occurs in training in any language or form.
"""

from __future__ import annotations

import datetime
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from heedful.data.splits import pick_split

if TYPE_CHECKING:
    from babel import Locale

LOCALES = ("ar bg bn cs da de el en en_GB es fa fi fr he hi hr hu id it ja ko mr nb nl pl pt ro ru sv th tr uk vi zh").split()
YEARS = (1800, 2199)
TWO_DIGIT_YEARS = (1950, 2049)  # a two-digit year is read in this window
DATE_SPLIT_PERCENTAGES = {"test": 2, "valid": 1, "train": 97}

# First code point of the ten digits of CLDR's numbering systems.
ZEROS = {"arab": 0x660, "arabext": 0x6F0, "deva": 0x966, "beng": 0x9E6, "thai": 0xE50}
# Characters CLDR uses that people do not type: narrow and no-break spaces, direction marks.
TYPED = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u200f": None, "\u200e": None})
FIELDS = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class Form:
    """One way a locale writes a date: a CLDR pattern and the digits it is written with."""

    locale: Locale
    pattern: str  # as Babel compiles it: '%(d)s. %(MMMM)s %(y)s'
    zero: int | None  # code point of the digit 0, when not ASCII

    @property
    def tag(self) -> str:
        """The token that names the language: <de>, <en-GB>."""
        return f"<{str(self.locale).replace('_', '-')}>"

    @property
    def years(self) -> tuple[int, int]:
        return TWO_DIGIT_YEARS if "%(yy)s" in self.pattern else YEARS

    def write(self, date: datetime.date) -> str:
        """The date in this form."""
        return "".join(text for text, _ in self.write_parts(date))

    def write_parts(self, date: datetime.date) -> list[tuple[str, str]]:
        """The date in this form as (text, letter of its CLDR field) parts: d, M, y, E …, or "" between fields."""
        from babel.dates import DateTimeFormat

        fields = DateTimeFormat(date, self.locale)
        parts = []
        for index, part in enumerate(FIELDS.split(self.pattern)):  # text, field, text, field, …, text
            text, letter = (fields[part], part[0]) if index % 2 else (part.replace("%%", "%"), "")
            if self.zero is not None:
                text = text.translate({ord("0") + digit: self.zero + digit for digit in range(10)})
            parts.append((text, letter))
        return parts


@cache
def all_forms() -> dict[str, list[Form]]:
    """Every form of every locale that has day, month and year: CLDR's four lengths and its skeletons."""
    from babel import Locale

    forms: dict[str, list[Form]] = {}
    for name in LOCALES:
        locale = Locale.parse(name)
        compiled = [*locale.date_formats.values(), *locale.datetime_skeletons.values()]
        patterns = {pattern.format for pattern in compiled}
        complete = [p for p in sorted(patterns) if {f[0] for f in FIELDS.findall(p)} | {"E", "G", "c"} == set("yMdEGc")]
        systems = {locale.default_numbering_system, locale.other_numbering_systems.get("native", "latn"), "latn"}
        zeros = [ZEROS.get(system) for system in sorted(systems)]
        forms[name] = [Form(locale, pattern, zero) for pattern in complete for zero in zeros]
    return forms


@cache
def ambiguous_forms() -> tuple[frozenset[Form], frozenset[Form]]:
    """Forms that write some date exactly as another form writes a different date: 3/4/26 in English and in Spanish.

    Returns the forms that a language tag disambiguates, and those that are ambiguous even within their language (CLDR has
    a few). They are found by writing sample dates in every form: all months, and all orders of three numbers that may each
    be a day, a month or a year. Weekdays are ignored here, because nobody computes a weekday to read a date.
    """
    numbers = [(3, 4, 5), (3, 5, 4), (4, 3, 5), (4, 5, 3), (5, 3, 4), (5, 4, 3), (10, 11, 12), (12, 11, 10), (11, 10, 12)]
    sample = [datetime.date(2000 + year, month, day) for day, month, year in numbers]
    sample += [datetime.date(2004, month, 3) for month in range(1, 13)]
    writers: dict[str, list[tuple[Form, datetime.date]]] = defaultdict(list)
    for forms in all_forms().values():
        for form in forms:
            nameless = Form(form.locale, re.sub(r"%\((E|c)+\)s", "", form.pattern), form.zero)
            for date in sample:
                writers[nameless.write(date).translate(TYPED).lower().strip(" ,.()")].append((form, date))
    between, within = set(), set()
    for written in writers.values():
        for form, date in written:
            others = [other for other, meant in written if meant != date]
            between.update([form] if others else [])
            within.update([form] if any(other.locale == form.locale for other in others) else [])
    return frozenset(between - within), frozenset(within)


@cache
def usable_forms() -> dict[str, list[Form]]:
    """The forms of each locale that are unambiguous once the language is known."""
    ambiguous = ambiguous_forms()[1]
    return {name: [form for form in forms if form not in ambiguous] for name, forms in all_forms().items()}


def split_of(date: datetime.date) -> str:
    """The one split a date belongs to."""
    return pick_split(date.isoformat(), DATE_SPLIT_PERCENTAGES)


@cache
def dates_of(split: str, first: int, last: int) -> list[datetime.date]:
    """Every date of a split in these years."""
    days = range(datetime.date(first, 1, 1).toordinal(), datetime.date(last, 12, 31).toordinal() + 1)
    return [date for date in map(datetime.date.fromordinal, days) if split_of(date) == split]


def generate_dates(split: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` pairs (a date as written somewhere, the same in ISO 8601) of one split.

    A form that is ambiguous without its language starts with the language tag. So does one in ten of the others, so that
    the tag is accepted everywhere. Half are as people type them, without CLDR's special spaces and marks, and one in ten
    is in lower case.
    """
    rng = random.Random(f"dates {split} {seed}")
    forms, ambiguous = usable_forms(), ambiguous_forms()[0]
    for _ in range(count):
        form = rng.choice(forms[rng.choice(LOCALES)])
        date = rng.choice(dates_of(split, *form.years))
        text = form.write(date)
        if rng.random() < 0.5:
            text = text.translate(TYPED)
        if rng.random() < 0.1:
            text = text.lower()
        if form in ambiguous or rng.random() < 0.1:
            text = f"{form.tag} {text}"
        yield text, date.isoformat()


def language_tags() -> list[str]:
    """Every language tag a source may start with; the tokenizer keeps each as one token."""
    return sorted({form.tag for forms in usable_forms().values() for form in forms})
