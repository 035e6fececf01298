"""Text cut into sentences, for models that learned from single ones; what is between them is kept."""

from __future__ import annotations

import re

# A sentence ends at one of these signs, with closing quotes or brackets, before white space and something that begins another;
# the full stops of Chinese and Japanese need no space. Only whole runs are tried, so that a page of dots takes no longer.
END = re.compile(r"""(?:(?<![.!?…؟।])[.!?…؟।]++["'”“’»)\]]*+(?=\s++["'“‘«(\[¿¡]*+[^\W\d_a-zß-öø-ÿ])|[。！？]+[”’」』）]*)""")
SHORT = r"[^\W\d_]|\d+|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Hr|Fr|Inc|Ltd|No|Nr|vs|ca|etc|bzw|usw|vol|approx|z\.\s?B|d\.\s?h|e\.g|i\.e"
LONGEST = 32  # characters before the end of a sentence that are searched for an abbreviation
ABBREVIATION = re.compile(rf"(?:^|[\s(])(?:{SHORT})\.$")


def split_text(text: str) -> list[tuple[str, bool]]:
    """A text as its sentences (True) and what is between them (False); joined again, they are the text.

    >>> split_text("A dog runs. It barks!  Why?")
    [('A dog runs.', True), (' ', False), ('It barks!', True), ('  ', False), ('Why?', True)]
    >>> split_text("am 15. November 2026")
    [('am 15. November 2026', True)]
    """
    parts: list[tuple[str, bool]] = []
    for line in re.split(r"(\r\n|\n|\r|\u2028)", text):
        start = 0
        for end in END.finditer(line):
            if not ABBREVIATION.search(line[max(start, end.end() - LONGEST) : end.end()]):
                parts += _trimmed(line[start : end.end()])
                start = end.end()
        parts += _trimmed(line[start:])
    return parts


def _trimmed(piece: str) -> list[tuple[str, bool]]:
    """A sentence without the white space around it, which is told apart."""
    inner = piece.strip()
    if not inner:
        return [(piece, False)] if piece else []
    before, after = piece[: piece.index(inner)], piece[piece.index(inner) + len(inner) :]
    return [part for part in ((before, False), (inner, True), (after, False)) if part[0]]
