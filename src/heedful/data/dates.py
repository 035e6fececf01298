"""The default corpus: dates as people write them, in the words of CLDR (through Babel) → ISO 8601.

Nothing is downloaded and there is no end to it. Every date belongs to one split for good, by a hash of the date
itself, so a held-out date never occurs in training in any language or form.
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

from heedful.data.splits import hash_of

if TYPE_CHECKING:
    from babel import Locale

LOCALES = ("ar bg bn cs da de el en en_GB es fa fi fr he hi hr hu id it ja ko mr nb nl pl pt ro ru sv th tr uk vi zh").split()
YEARS = (1800, 2199)
TWO_DIGIT_YEARS = (1950, 2049)  # a two-digit year is read in this window
SPLITS = {"test": (0, 2), "valid": (2, 3), "train": (3, 100)}  # per cent of all dates

# First code point of the ten digits of CLDR's numbering systems.
ZEROS = {"arab": 0x660, "arabext": 0x6F0, "deva": 0x966, "beng": 0x9E6, "thai": 0xE50}
# What CLDR writes and a keyboard does not: narrow and fixed spaces, direction marks.
TYPED = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u200f": None, "\u200e": None})
FIELDS = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class Form:
    """One way one locale writes a date: a CLDR pattern and the digits it is written with."""

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
        """The date in this form, part by part, each with the letter of its CLDR field (d, M, y, E …; "" between fields)."""
        from babel.dates import DateTimeFormat

        fields = DateTimeFormat(date, self.locale)
        parts = []
        for index, part in enumerate(FIELDS.split(self.pattern)):  # what stands between, a field, what stands between …
            text, letter = (fields[part], part[0]) if index % 2 else (part.replace("%%", "%"), "")
            if self.zero is not None:
                text = text.translate({ord("0") + digit: self.zero + digit for digit in range(10)})
            parts.append((text, letter))
        return parts


@cache
def all_forms() -> dict[str, list[Form]]:
    """Every form of every locale that tells day, month and year: CLDR's four lengths and its skeletons."""
    from babel import Locale

    forms: dict[str, list[Form]] = {}
    for name in LOCALES:
        locale = Locale.parse(name)
        compiled = [*locale.date_formats.values(), *locale.datetime_skeletons.values()]
        patterns = {pattern.format for pattern in compiled}
        told = [p for p in sorted(patterns) if {f[0] for f in FIELDS.findall(p)} | {"E", "G", "c"} == set("yMdEGc")]
        systems = {locale.default_numbering_system, locale.other_numbering_systems.get("native", "latn"), "latn"}
        zeros = [ZEROS.get(system) for system in sorted(systems)]
        forms[name] = [Form(locale, pattern, zero) for pattern in told for zero in zeros]
    return forms


@cache
def ambiguous_forms() -> tuple[frozenset[Form], frozenset[Form]]:
    """Forms that write some date just as another form writes a different one: 3/4/26 in English and in Spanish.

    Returns those that a language tag settles, and those that even their own language does not (CLDR has a few). Found
    by writing a sample of dates in every form: all months, and all orders of three numbers that may each be a day, a
    month or a year. A weekday does not count as settling it: nobody works one out to read a date.
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
    """The forms of each locale that can be read, given the language where it matters."""
    hopeless = ambiguous_forms()[1]
    return {name: [form for form in forms if form not in hopeless] for name, forms in all_forms().items()}


def split_of(date: datetime.date) -> str:
    """The one split a date belongs to."""
    bucket = hash_of(date.isoformat()) % 100
    return next(name for name, (low, high) in SPLITS.items() if low <= bucket < high)


@cache
def dates_of(split: str, first: int, last: int) -> list[datetime.date]:
    """Every date of a split in these years."""
    days = range(datetime.date(first, 1, 1).toordinal(), datetime.date(last, 12, 31).toordinal() + 1)
    return [date for date in map(datetime.date.fromordinal, days) if split_of(date) == split]


def generate_dates(split: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` pairs (a date as written somewhere, the same in ISO 8601) of one split.

    A form that is ambiguous without its language carries the language tag first; of the others one in ten does, so
    that the tag may always be given. Half are as a person types them, without CLDR's special spaces and marks, and
    one in ten is in lower case.
    """
    chance = random.Random(f"dates {split} {seed}")
    forms, ambiguous = usable_forms(), ambiguous_forms()[0]
    for _ in range(count):
        form = chance.choice(forms[chance.choice(LOCALES)])
        date = chance.choice(dates_of(split, *form.years))
        text = form.write(date)
        if chance.random() < 0.5:
            text = text.translate(TYPED)
        if chance.random() < 0.1:
            text = text.lower()
        if form in ambiguous or chance.random() < 0.1:
            text = f"{form.tag} {text}"
        yield text, date.isoformat()


def language_tags() -> list[str]:
    """Every tag that may stand first, each a token of its own."""
    return sorted({form.tag for forms in usable_forms().values() for form in forms})
