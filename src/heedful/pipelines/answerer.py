"""The answer to a question as a span of a passage (extractive question answering)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from heedful.data.drops import Drops
from heedful.data.question_windows import question_windows, whole_words, word_edges
from heedful.data.squad import Question, read_squad
from heedful.errors import InputError
from heedful.evaluation.squad_scores import span_scores
from heedful.jobs.options import Options
from heedful.jobs.results import Answer, Span
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.settings import Count, CountOrNone, Positions
from heedful.text import Tokenizer

LONGEST_PASSAGE = 1_000_000  # characters that are searched for one answer


class Answerer(EncoderPipeline[Any]):
    """Finds answers of at most `max_answer` tokens; a long passage is read in windows that overlap by `stride` tokens."""

    task: ClassVar[str] = "question-answering"

    def __init__(
        self, model: Bert, tokenizer: Tokenizer, max_length: Positions = 256, stride: CountOrNone = 96, max_answer: Count = 30
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.stride, self.max_answer = stride, max_answer

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "stride": self.stride, "max_answer": self.max_answer}

    def run(self, inputs: Sequence[tuple[str, str]], options: Options | None = None) -> list[Answer]:
        found = zip(inputs, self.answer(inputs), strict=True)
        return [Answer(question, span.text, span.probability) for (question, _), span in found]

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[Span]:
        """The best span of each (question, passage)."""
        for index, (_, passage) in enumerate(questions):
            if len(passage) > LONGEST_PASSAGE:
                raise InputError(f"a passage of {len(passage):,} characters is too long; give at most {LONGEST_PASSAGE:,}", index)
        windows = list(question_windows(questions, self.tokenizer, self.max_length, self.stride))
        best: list[tuple[float, str]] = [(-math.inf, "")] * len(questions)
        totals = [-math.inf] * len(questions)
        edges = [word_edges(passage) for _, passage in questions]
        for i, _, logits in self.outputs([w.ids for w in windows], [w.first for w in windows]):
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
            Span(text, math.exp(value - total) if value > -math.inf else 0.0)
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
        window = next(question_windows([(question.question, question.context)], self.tokenizer, self.max_length, self.stride))
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
