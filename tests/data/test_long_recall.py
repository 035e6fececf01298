"""Long-recall: the answer is in the first eighth of a document, the question at its end, and nothing else reveals it."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pytest

from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.data.long_recall import DIGITS, EARLY, KEYS, SHORTEST, STATED, filling_words, generate_long_recall, write_long_recall
from heedful.errors import UsageError

LONGEST = 1000
TRAIN = list(generate_long_recall("train", 3000, 1, LONGEST))
HELD_OUT = list(generate_long_recall("test", 300, 1, LONGEST))


def stated(words: list[str]) -> dict[int, tuple[str, str]]:
    """Place → key and digit of everything that a document states."""
    return {place: tuple(word.split("=")) for place, word in enumerate(words) if "=" in word}  # type: ignore[misc]


@pytest.mark.parametrize("documents", [TRAIN, HELD_OUT])
def test_the_label_is_what_the_beginning_states_of_the_key_asked_for(documents: list[tuple[str, str]]) -> None:
    for text, label in documents:
        words = text.split()
        found = stated(words)
        assert max(found) < max(STATED, len(words) // EARLY) <= len(words) / 2
        keys = dict(found.values())
        assert len(keys) == len(found), "no key is stated twice"
        assert words[-1].endswith("?")
        assert keys[words[-1][:-1]] == label
        assert sum("?" in word for word in words) == 1


def test_held_out_documents_have_the_full_length_and_all_keys() -> None:
    assert {len(text.split()) for text, _ in HELD_OUT} == {LONGEST}
    assert {len(stated(text.split())) for text, _ in HELD_OUT} == {STATED}


def test_training_documents_have_all_lengths_and_short_ones_have_most_of_the_words() -> None:
    lengths = [len(text.split()) for text, _ in TRAIN]
    assert min(lengths) >= SHORTEST
    assert LONGEST / 2 < max(lengths) <= LONGEST
    octaves: Counter[int] = Counter()
    for length in lengths:
        octaves[int(math.log2(length / SHORTEST))] += length
    assert all(1.1 < octaves[octave] / octaves[octave + 1] < 1.8 for octave in range(3)), "√2 of the next"
    assert {len(stated(text.split())) for text, _ in TRAIN} == set(range(1, STATED + 1))


def test_a_guess_that_does_not_read_the_question_is_seldom_right() -> None:
    labels = Counter(label for _, label in HELD_OUT)
    assert set(labels) == set(DIGITS)
    assert max(labels.values()) < 0.2 * len(HELD_OUT)
    first = sum(next(iter(stated(text.split()).values()))[1] == label for text, label in HELD_OUT)
    assert first < 0.5 * len(HELD_OUT)


def test_filling_words_are_no_keys_and_always_the_same() -> None:
    words = filling_words()
    assert words == filling_words()
    assert len(set(words)) == 1000
    assert not set(words) & set(KEYS)
    assert all(re.fullmatch("[a-z]{4,6}", word) for word in words)


def test_files_depend_on_the_seed_alone(tmp_path: Path) -> None:
    made = [write_long_recall(tmp_path / name, seed, 20, 100, held_out=5) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert [len(list(read_labelled(path, Drops()))) for path in made[0].values()] == [20, 5, 5]
    assert all(made[0][split].read_bytes() == made[1][split].read_bytes() != made[2][split].read_bytes() for split in made[0])


def test_documents_too_short_for_all_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"long-recall needs documents of 32 words: data.max_length must be at least 34"):
        write_long_recall(tmp_path, 1, 5, 31)
