"""The answer to a question as a span of a passage (extractive question answering)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from heedful.data.drops import Drops
from heedful.data.squad import Question, read_squad
from heedful.data.words import split_words
from heedful.evaluation import span_scores
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.text import Tokenizer

LONGEST_QUESTION = 64  # tokens


@dataclass(frozen=True)
class Window:
    """A question with part of its passage: ids (question, [SEP], passage), and the characters of each passage token."""

    number: int  # of the question
    ids: list[int]
    first: int  # tokens of the question
    offsets: list[tuple[int, int]]

    @property
    def begin(self) -> int:
        """Where the passage begins in the framed row: behind [CLS], the question and [SEP]."""
        return self.first + 2


class Answerer(EncoderPipeline):
    """Finds answers of at most `max_answer` tokens; a long passage is read in windows that overlap by `stride` tokens."""

    task: ClassVar[str] = "question-answering"

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_length: int = 256, stride: int = 96, max_answer: int = 30) -> None:
        super().__init__(model, tokenizer, max_length)
        self.stride, self.max_answer = stride, max_answer

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "stride": self.stride, "max_answer": self.max_answer}

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[tuple[str, float]]:
        """The best span of each (question, passage) and its probability among all spans."""
        windows = list(windows_of(questions, self.tokenizer, self.max_length, self.stride))
        best: list[tuple[float, str]] = [(-math.inf, "")] * len(questions)
        totals = [-math.inf] * len(questions)
        edges = [word_edges(passage) for _, passage in questions]
        for i, _, logits in self.read([w.ids for w in windows], [w.first for w in windows]):
            window = windows[i]
            if not window.offsets:
                continue
            inside = logits[window.begin : window.begin + len(window.offsets)].float()  # (n, 2)
            spans = inside[:, 0, None] + inside[None, :, 1]  # (n starts, n ends)
            allowed = torch.ones_like(spans, dtype=torch.bool).triu().tril(self.max_answer - 1)
            allowed &= whole_words(window.offsets, *edges[window.number]).to(spans.device)
            if not allowed.any():
                continue
            spans = spans.masked_fill(~allowed, -math.inf)
            totals[window.number] = float(
                torch.logaddexp(torch.tensor(totals[window.number]), spans.flatten().logsumexp(0).cpu())
            )
            at = int(spans.argmax())
            value = float(spans.flatten()[at])
            if value > best[window.number][0]:
                start, end = window.offsets[at // spans.size(1)][0], window.offsets[at % spans.size(1)][1]
                best[window.number] = (value, questions[window.number][1][start:end].strip())
        return [
            (text, math.exp(value - total) if value > -math.inf else 0.0)
            for (value, text), total in zip(best, totals, strict=True)
        ]

    def read_examples(self, path: Path, drops: Drops) -> list[Question]:
        return list(read_squad(path, drops))

    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """Of each question: the answer found."""
        questions = [as_question(example) for example in examples]
        return [text for text, _ in self.answer([(q.question, q.context) for q in questions])]

    def row_of(self, example: Any) -> tuple[list[int], int | None]:
        question = as_question(example)
        window = next(windows_of([(question.question, question.context)], self.tokenizer, self.max_length, self.stride))
        return window.ids, window.first

    def scores(self, examples: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        right = [[text for text, _ in as_question(example).answers] for example in examples]
        return dict(span_scores(outputs, right))

    def samples(self, examples: Sequence[Any], outputs: Sequence[Any]) -> list[dict[str, str]]:
        questions = [as_question(example) for example in examples]
        return [
            {"input": q.question, "output": text, "reference": q.answers[0][0]}
            for q, text in zip(questions, outputs, strict=True)
        ]


def as_question(example: Any) -> Question:
    """A question as it was read, or as JSON gave it back."""
    if isinstance(example, Question):
        return example
    number, question, context, answers = example
    return Question(number, question, context, tuple((text, start) for text, start in answers))


def word_edges(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """The characters at which words begin, and those behind which they end."""
    words = split_words(text)
    return frozenset(start for _, start, _ in words), frozenset(end for _, _, end in words)


def whole_words(offsets: Sequence[tuple[int, int]], starts: frozenset[int], ends: frozenset[int]) -> Tensor:
    """(n, n): spans from a first to a last token that begin and end with a word; half a word answers nothing."""
    first = torch.tensor([any(at in starts for at in range(left, right)) for left, right in offsets])
    last = torch.tensor([right in ends for _, right in offsets])
    return first[:, None] & last[None, :]


def windows_of(questions: Sequence[tuple[str, str]], tokenizer: Tokenizer, max_length: int, stride: int) -> Iterator[Window]:
    """Every (question, passage) as the windows a model reads."""
    for number, (question, passage) in enumerate(questions):
        asked = tokenizer.encode(question)[: min(LONGEST_QUESTION, max_length // 2)]
        ids, offsets = tokenizer.encode_with_offsets(passage)
        room = max_length - 3 - len(asked)
        step = max(1, room - stride)
        for start in range(0, max(1, len(ids) - room + step), step):
            part = slice(start, start + room)
            yield Window(number, [*asked, tokenizer.eos, *ids[part]], len(asked), offsets[part])
