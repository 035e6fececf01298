"""Question answering: where an answer is among the tokens of a window, and that no window is left out."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import CITIES, small_recipe
from heedful.data.batches import Position
from heedful.data.question_windows import question_windows
from heedful.runtime.screen import Silence
from heedful.tasks.answering import AnsweringTask, answer_tokens
from heedful.text import Tokenizer

PASSAGE = "Ångström lived in Uppsala, where he measured light; in 1868 he published a great map of the sun's spectrum."
QUESTION = "Where did Ångström live?"
TOKENIZERS = {
    kind: Tokenizer.train(kind, [PASSAGE, QUESTION] * 3, size)
    for kind, size in {"bpe": 300, "wordpiece": 150, "char": 80, "byte": 0}.items()
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("answer", ["Uppsala", "1868", "Ångström", "the sun's spectrum", "light; in"])
def test_the_tokens_of_an_answer_lead_back_to_its_text(kind: str, answer: str) -> None:
    tokenizer, start = TOKENIZERS[kind], PASSAGE.index(answer)
    (window,) = question_windows([(QUESTION, PASSAGE)], tokenizer, 400, 10)
    first, last = answer_tokens(window, start, start + len(answer))
    row = [tokenizer.bos, *window.ids, tokenizer.eos]
    assert row[window.begin - 1] == tokenizer.eos
    begin, end = window.offsets[first - window.begin][0], window.offsets[last - window.begin][1]
    assert PASSAGE[begin:end].strip() == answer
    assert tokenizer.decode(row[first : last + 1]).replace(" ", "") == answer.replace(" ", "")


@settings(deadline=None, max_examples=80)
@given(
    words=st.integers(0, 120),
    max_length=st.integers(8, 60),
    stride=st.integers(0, 40),
    kind=st.sampled_from(["wordpiece", "byte"]),
)
def test_windows_together_hold_the_whole_passage_and_overlap_as_asked(
    words: int, max_length: int, stride: int, kind: str
) -> None:
    tokenizer = TOKENIZERS[kind]
    passage = " ".join((PASSAGE.split() * 7)[:words])
    ids, offsets = tokenizer.encode_with_offsets(passage)
    windows = list(question_windows([(QUESTION, passage)], tokenizer, max_length, stride))
    asked = windows[0].first
    room = max_length - 3 - asked
    covered = 0
    for number, window in enumerate(windows):
        assert len(window.ids) + 2 <= max_length
        assert window.ids[: asked + 1] == [*tokenizer.encode(QUESTION)[:asked], tokenizer.eos]
        begin = number * max(1, room - stride)
        assert begin <= covered, "tokens were left out"
        assert window.ids[asked + 1 :] == ids[begin : begin + room]
        assert window.offsets == offsets[begin : begin + room]
        covered = begin + room
    assert covered >= len(ids)
    assert len(windows) == 1 or covered - max(1, room - stride) < len(ids), "the last window adds nothing"


@pytest.mark.parametrize("answer", ["Uppsala", "spectrum", "Ångström lived"])
def test_every_answer_that_fits_stands_whole_in_a_window_of_a_long_passage(answer: str) -> None:
    tokenizer, start = TOKENIZERS["wordpiece"], PASSAGE.index(answer)
    windows = list(question_windows([(QUESTION, PASSAGE)], tokenizer, 18, 4))
    assert len(windows) > 2
    found = [answer_tokens(window, start, start + len(answer)) for window in windows]
    inside = [(window, place) for window, place in zip(windows, found, strict=True) if place != (0, 0)]
    assert inside
    assert len(inside) < len(windows)
    for window, (first, last) in inside:
        begin, end = window.offsets[first - window.begin][0], window.offsets[last - window.begin][1]
        assert PASSAGE[begin:end] == answer


def test_an_answer_cut_in_two_is_no_answer_of_that_window() -> None:
    (window,) = list(question_windows([(QUESTION, PASSAGE)], TOKENIZERS["char"], 60, 0))[:1]
    edge = window.offsets[-1][1]
    assert answer_tokens(window, edge - 3, edge) != (0, 0)
    assert answer_tokens(window, edge - 3, edge + 3) == (0, 0)
    assert answer_tokens(window, edge + 1, edge + 3) == (0, 0)


def test_batches_point_at_the_answers(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("questions")
    recipe = small_recipe("question-answering", folder, "data.max_length=120", "model.max_positions=120")
    AnsweringTask.prepare(recipe, folder / "data", Silence())
    task = AnsweringTask(recipe, folder / "data")
    seen = set()
    for _, batch in islice(task.batches(Position(), 0, 1), 20):
        assert batch is not None
        for tokens, segments, (asked, first, last) in zip(batch.tokens, batch.segments, batch.labels.tolist(), strict=True):
            assert segments[asked + 1] == 0  # the [SEP] behind the question
            assert segments[asked + 2] == 1
            assert segments[first] == segments[last] == 1
            seen.add(task.tokenizer.decode(tokens[first : last + 1].tolist()))
    assert seen <= set(CITIES)
    assert len(seen) > 5
