"""Pages in two languages: every text of a template in English, with the Korean one beside it for the switch at the top."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from markupsafe import Markup, escape


@cache
def korean_texts() -> dict[str, str]:
    """English text → Korean text."""
    found: dict[str, str] = json.loads(resources.files("heedful.explain").joinpath("korean.json").read_text(encoding="utf-8"))
    return found


def in_two_languages(text: str, **values: object) -> Markup:
    """A text in English that the reader can switch to Korean; what has no translation, such as BLEU, stays as it is.

    A value may be a word that has a translation of its own.
    """
    english = text.format(**values) if values else text
    texts = korean_texts()
    if text not in texts:
        return Markup(escape(english))
    korean = texts[text]
    if values:
        korean = korean.format(**{name: texts.get(str(value), value) for name, value in values.items()})
    return Markup('<span data-ko="{}">{}</span>').format(korean, english)
