"""Tokens of a byte-level vocabulary that end inside a character, as a reader sees them: characters, and bytes as numbers."""

from __future__ import annotations

import re

VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]  # written as the character of that number
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
BYTE_OF = {chr(byte): byte for byte in VISIBLE} | {chr(256 + number): byte for number, byte in enumerate(HIDDEN)}


def shown_bytes(name: str) -> str:
    """The name of a byte-level token → its characters, and in ⟨⟩ bytes that are only a part of one.

    >>> shown_bytes("æĪĳ"), shown_bytes("æĪ"), shown_bytes("ĳa")
    ('我', '⟨E6 88⟩', '⟨91⟩a')
    """
    data = bytes(BYTE_OF[character] for character in name)
    shown, at = "", 0
    while at < len(data):
        length = next((size for size in (1, 2, 3, 4) if _is_character(data[at : at + size])), 0)
        shown += data[at : at + length].decode() if length else f"⟨{data[at]:02X}⟩"
        at += length or 1
    return re.sub("⟩⟨", " ", shown)


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False
