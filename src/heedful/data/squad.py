"""Questions on passages with their answers, from SQuAD v1.1 JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from heedful.data.drops import LONGEST_DOCUMENT, Drops, at_least_one, reason_to_drop, whole_text
from heedful.data.lines import read_lines
from heedful.errors import HeedfulError
from heedful.settings import Json


class SquadAnswer(TypedDict):
    """An answer in a SQuAD file."""

    text: str
    answer_start: int  # in characters of the passage


class SquadQuestion(TypedDict):
    """An entry of "qas"."""

    id: str
    question: str
    answers: list[SquadAnswer]


class SquadParagraph(TypedDict):
    """A passage and the questions on it."""

    context: str
    qas: list[SquadQuestion]


class SquadArticle(TypedDict):
    """An entry of "data"."""

    title: str
    paragraphs: list[SquadParagraph]


@dataclass(frozen=True)
class Question:
    """A question on a passage and its reference answers: the text and the character it begins at."""

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]

    @classmethod
    def from_row(cls, row: tuple[str, str, str, list[tuple[str, int]]]) -> Question:
        """From the list of its fields, as stored in a prepared folder."""
        number, question, context, answers = row
        return cls(number, question, context, tuple((text, start) for text, start in answers))


def read_squad(path: Path, drops: Drops) -> Iterator[Question]:
    """Every usable question, in order; the others are counted in `drops`.

    A wrong answer_start is corrected when the answer occurs exactly once in the passage; otherwise the question is
    dropped. Questions without an answer, as in SQuAD 2.0, are dropped too.
    """
    try:
        content = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise HeedfulError(f"{path} line {error.lineno} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise HeedfulError(f"{path} cannot be read as JSON: it is nested too deeply") from error
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise HeedfulError(f'{path} is not in SQuAD v1.1 format: it must be an object with a list "data"')
    yield from at_least_one(_questions(articles, path.name, drops), "question", path, drops)


def _questions(articles: list[Json], name: str, drops: Drops) -> Iterator[Question]:
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(_list(article, "paragraphs", f"{name} data[{a}]", drops)):
            where = f"{name} data[{a}].paragraphs[{p}]"
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for q, entry in enumerate(_list(paragraph, "qas", where, drops)):
                question = _question(entry, context, f"{where}.qas[{q}]", drops)
                if question:
                    yield question


def _list(holder: Json, key: str, where: str, drops: Drops) -> list[Json]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        drops.add(f'without a list "{key}"', where)
        return []
    return found


def _question(entry: Json, context: Json, where: str, drops: Drops) -> Question | None:
    """The question in an entry of "qas"; an unusable one is counted in `drops` and gives None."""
    entry = entry if isinstance(entry, dict) else {}
    name, question, given = entry.get("id"), entry.get("question"), entry.get("answers")
    if not isinstance(name, (str, int)) or not isinstance(question, str) or not isinstance(context, str):
        drops.add('without "id", "question" and "context"', where)
    elif reason := reason_to_drop(question, context, longest=LONGEST_DOCUMENT):
        drops.add(reason, where)
    elif not isinstance(given, list) or not given:
        drops.add("without an answer", where)
    else:
        answers = tuple(_answer(answer, context) for answer in given)
        if None not in answers:
            return Question(
                str(name),
                whole_text(question),
                whole_text(context),
                tuple((whole_text(text), at) for text, at in filter(None, answers)),
            )
        drops.add("with an answer that does not occur exactly once in the passage", where)
    return None


def _answer(answer: Json, context: str) -> tuple[str, int] | None:
    """(text, begin) of an answer at its place in the passage, or None."""
    text, begin = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
    if not isinstance(text, str) or not text.strip():
        return None
    if isinstance(begin, int) and begin >= 0 and context.startswith(text, begin):
        return text, begin
    found = context.find(text)
    return (text, found) if found >= 0 and context.find(text, found + 1) < 0 else None
