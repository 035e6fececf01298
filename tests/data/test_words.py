"""Words: no visible character is lost, and every word is at its offsets."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.data.words import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("15. November 2026", ["15", ".", "November", "2026"]),
        ("it's 3:45pm!", ["it", "'", "s", "3", ":", "45", "pm", "!"]),
        ("2026年11月15日日曜日", ["2026", "年", "11", "月", "15", "日", "日", "曜", "日"]),
        ("мая\u202f2026\u00a0г.", ["мая", "2026", "г", "."]),
        ("15\u200f/11\u200f/2026", ["15", "/", "11", "/", "2026"]),
        ("रविवार १५", ["रविवार", "१५"]),  # vowel signs are combining marks
        ("Zu\u0308rich", ["Zu\u0308rich"]),
        ("½ €5 👍🏽", ["½", "€", "5", "👍", "🏽"]),
        ("일요일", ["일요일"]),
        (" \t\n", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_or_digits_or_single_characters(text: str, words: list[str]) -> None:
    assert [word for word, _, _ in split_words(text)] == words


@given(st.text())
def test_words_are_at_their_offsets_in_order_and_no_visible_character_is_lost(text: str) -> None:
    last, between = 0, ""
    for word, begin, end in split_words(text):
        assert word == text[begin:end]
        assert last <= begin < end
        between += text[last:begin]
        last = end
    between += text[last:]
    assert {unicodedata.category(character) for character in between} <= {"Zs", "Zl", "Zp", "Cc", "Cf", "Cs"}


@given(st.lists(st.sampled_from(["abc", "42", ".", "年", "日", "é"]), max_size=8))
def test_splitting_words_joined_with_spaces_gives_the_same_words(pieces: list[str]) -> None:
    words = [word for word, _, _ in split_words(" ".join(pieces))]
    assert words == pieces
    assert [word for word, _, _ in split_words(" ".join(words))] == words
