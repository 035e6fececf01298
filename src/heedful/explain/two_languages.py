"""Pages in two languages: every text of a template in English, with the Korean one beside it for the switch at the top."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from markupsafe import Markup, escape


@cache
def korean_texts() -> dict[str, str]:
    """English text → Korean text."""
    found: dict[str, str] = json.loads(resources.files("heedful.explain").joinpath("korean.json").read_text(encoding="utf-8"))
    return found


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The texts with {values} in them as patterns."""
    named = re.compile(r"\\\{(\w+)\\\}")  # as re.escape writes {name}
    return [
        (re.compile(named.sub(r"(?P<\1>.+)", re.escape(text)), re.DOTALL), korean)
        for text, korean in sorted(korean_texts().items(), key=lambda pair: -len(pair[0]))  # the most specific one first
        if "{" in text
    ]


def korean_of(text: str) -> str | None:
    """A text in Korean, or None if it has no translation. Values in it may be words that have one of their own."""
    if text in korean_texts():
        return korean_texts()[text]
    for pattern, korean in _patterns():
        if match := pattern.fullmatch(text):
            return korean.format(**{name: korean_texts().get(value, value) for name, value in match.groupdict().items()})
    parts = [korean_texts().get(part) for part in text.split("; ")]  # a list, of measures for instance
    return "; ".join(map(str, parts)) if None not in parts else None


def in_two_languages(text: str, **values: object) -> Markup:
    """A text in English that the reader can switch to Korean; what has no translation, such as BLEU, stays as it is."""
    english = text.format(**values) if values else text
    korean = korean_of(english)
    return Markup(escape(english)) if korean is None else Markup('<span data-ko="{}">{}</span>').format(korean, english)
