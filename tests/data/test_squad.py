"""SQuAD JSON: every answer is at its answer_start."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heedful.data.drops import Drops
from heedful.data.squad import Question, read_squad
from heedful.errors import HeedfulError

CONTEXT = "Warsaw lies on the Vistula 🚢, and Warsaw is the capital."


def entry(text: Any = "Vistula", start: Any = 19, **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Which river?", "answers": [{"text": text, "answer_start": start}], **more}


def write(folder: Path, *entries: Any, context: Any = CONTEXT, zipped: bool = False) -> Path:
    content = {"version": "1.1", "data": [{"title": "Warsaw", "paragraphs": [{"context": context, "qas": list(entries)}]}]}
    text = ("\ufeff" + json.dumps(content, indent=1)).encode()
    path = folder / "squad.json"
    path.write_bytes(gzip.compress(text) if zipped else text)
    return path


def read(path: Path) -> tuple[list[Question], Drops]:
    drops = Drops()
    return list(read_squad(path, drops)), drops


@pytest.mark.parametrize("zipped", [False, True])
def test_a_question_is_read_with_all_its_answers(zipped: bool, tmp_path: Path) -> None:
    given = entry()
    given["answers"].append({"text": "the Vistula", "answer_start": 15})
    questions, drops = read(write(tmp_path, given, zipped=zipped))
    assert questions == [Question("q1", "Which river?", CONTEXT, (("Vistula", 19), ("the Vistula", 15)))]
    assert not drops.counts


@pytest.mark.parametrize("start", [18, 0, -5, 10_000, "19", None, 19.0])
def test_a_wrong_offset_is_corrected_when_the_answer_occurs_once(start: Any, tmp_path: Path) -> None:
    questions, drops = read(write(tmp_path, entry(start=start)))
    assert [question.answers for question in questions] == [(("Vistula", 19),)]
    assert not drops.counts


@pytest.mark.parametrize(("text", "start"), [("Warsaw", 5), ("Danube", 19), ("", 0), (" ", 6), (None, 0), ("vistula", 19)])
def test_an_answer_that_occurs_nowhere_or_twice_drops_its_question(text: Any, start: int, tmp_path: Path) -> None:
    questions, drops = read(write(tmp_path, entry(), entry(text, start)))
    assert len(questions) == 1
    assert drops.counts == Counter({"with an answer that does not occur exactly once in the passage": 1})
    assert drops.first.popitem()[1] == "squad.json data[0].paragraphs[0].qas[1]"


def test_a_correct_offset_is_kept_however_often_the_answer_occurs(tmp_path: Path) -> None:
    second = CONTEXT.rindex("Warsaw")
    assert read(write(tmp_path, entry("Warsaw", second)))[0][0].answers == (("Warsaw", second),)


def test_a_lone_surrogate_is_replaced_and_moves_no_answer(tmp_path: Path) -> None:
    (question,), _ = read(write(tmp_path, entry(start=13), context="A \ud83d on the Vistula"))
    question.context.encode()
    text, start = question.answers[0]
    assert question.context[start : start + len(text)] == text == "Vistula"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry() | {"answers": []}, "without an answer"),
        (entry() | {"answers": [], "is_impossible": True}, "without an answer"),
        (entry() | {"question": " "}, "empty"),
        (entry() | {"question": "bell\a?"}, "with control characters"),
        (entry() | {"id": None}, 'without "id", "question" and "context"'),
        ({"id": "q2", "answers": []}, 'without "id", "question" and "context"'),
        ("Which river?", 'without "id", "question" and "context"'),
    ],
)
def test_an_unusable_question_is_counted(bad: Any, reason: str, tmp_path: Path) -> None:
    questions, drops = read(write(tmp_path, bad, entry()))
    assert len(questions) == 1
    assert drops.counts == Counter({reason: 1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [\n{"paragraphs": }\n]}', "{} line 2 is not JSON: Expecting value"),
        ("[]", '{} is not in SQuAD v1.1 format: it must be an object with a list "data"'),
        ('{"data": {}}', '{} is not in SQuAD v1.1 format: it must be an object with a list "data"'),
        ('{"data": []}', "no usable question in {}"),
        ('{"data": [{"title": "x"}]}', 'no usable question in {}: 1 without a list "paragraphs" (first: squad.json data[0])'),
        (
            '{"data": [{"paragraphs": [{"context": "x"}]}]}',
            'no usable question in {}: 1 without a list "qas" (first: squad.json data[0].paragraphs[0])',
        ),
        ("[" * 100_000, "{} cannot be read as JSON: it is nested too deeply"),
    ],
)
def test_a_file_of_another_shape_is_an_error_that_says_where(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    path.write_text(content)
    with pytest.raises(HeedfulError) as caught:
        read(path)
    assert str(caught.value) == message.format(path)
