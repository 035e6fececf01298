"""Splits text in any script into words with their positions."""

from __future__ import annotations

import unicodedata

# Scripts written without spaces: every character counts as a word, as in BERT's tokenizer.
IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")


def split_words(text: str) -> list[tuple[str, int, int]]:
    """(word, begin, end) of every word, where `text[begin:end]` is the word.

    A word is a run of letters with their combining marks, a run of digits, or a single other visible character; Chinese
    and Japanese characters are single words. Spaces and invisible marks separate words and belong to none.
    """
    spans: list[tuple[int, int]] = []
    previous = ""  # the kind of character that would continue the last word
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
    """letter, digit, mark or alone (a word by itself); "" for characters that separate words."""
    category = unicodedata.category(character)
    if category[0] == "L":
        return "alone" if unicodedata.name(character, "").startswith(IDEOGRAPHS) else "letter"
    if category in ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs"):
        return ""
    return "digit" if category == "Nd" else "mark" if category[0] == "M" else "alone"
