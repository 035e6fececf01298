"""Sentences are found where a reader would find them, and nothing of a text is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.text.sentences import split_text


@given(st.text(alphabet=st.sampled_from("aB .!?。\n\r\t\"'(„“3é¿—"), max_size=60))
def test_the_parts_are_the_text_and_sentences_have_no_space_around(text: str) -> None:
    parts = split_text(text)
    assert "".join(part for part, _ in parts) == text
    for part, is_sentence in parts:
        assert bool(part.strip()) == is_sentence
        assert not is_sentence or part == part.strip()


@pytest.mark.parametrize("part", [".", "Mr. ", '. "', "!'", "。"])
def test_time_grows_with_the_length_and_no_faster(part: str) -> None:
    """What strangers send to a service must not keep it busy."""
    begun = time.process_time()
    split_text(part * (100_000 // len(part)))
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A dog runs. It barks! Why? No idea.", 4),
        ("„Komm!“ Er ging. Dann kam der 15. November 2026.", 3),
        ("Dr. Smith met Mr. Jones at 3 p.m. on Monday.", 1),
        ("J. S. Bach wrote it.", 1),
        ("犬が走る。猫も走る！なぜ？", 3),
        ("Он пришёл. Она ушла.", 2),
        ("one line\nanother line", 2),
        ("version 3.11 is out", 1),
        ("", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert sum(is_sentence for _, is_sentence in split_text(text)) == count
