"""Words of a text in any script, with where they stand."""

from __future__ import annotations

import unicodedata

# Scripts written without spaces, where a character is a word here, as it is to BERT.
IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")


def split_words(text: str) -> list[tuple[str, int, int]]:
    """(word, begin, end) of every word: `text[begin:end]` is the word.

    A word is a run of letters with their combining marks, a run of digits, or any other visible character alone, a
    Chinese or Japanese one too. Spaces and invisible marks separate words and are in none.
    """
    spans: list[tuple[int, int]] = []
    previous = ""  # what the word before could go on with
    for index, character in enumerate(text):
        kind = _kind(character)
        if kind and kind != "alone" and (kind == previous or (kind == "mark" and previous)):
            spans[-1] = (spans[-1][0], index + 1)
        elif kind:
            spans.append((index, index + 1))
            previous = "letter" if kind == "mark" else kind
        else:
            previous = ""
    return [(text[begin:end], begin, end) for begin, end in spans]


def _kind(character: str) -> str:
    """letter, digit, mark, alone; "" for what separates words."""
    category = unicodedata.category(character)
    if category[0] == "L":
        return "alone" if unicodedata.name(character, "").startswith(IDEOGRAPHS) else "letter"
    if category in ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs"):
        return ""
    return "digit" if category == "Nd" else "mark" if category[0] == "M" else "alone"
