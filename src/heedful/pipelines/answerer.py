"""The answer to a question as a span of a passage (extractive question answering)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from heedful.data.drops import Drops
from heedful.data.question_windows import QuestionWindow, question_windows, whole_words, word_edges
from heedful.data.squad import Question, read_squad
from heedful.errors import InputError
from heedful.evaluation.score_names import Sample
from heedful.evaluation.squad_scores import span_scores
from heedful.jobs.options import Options
from heedful.jobs.results import Answer, Span
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.settings import Count, CountOrNone, Json, Positions
from heedful.text import Tokenizer

LONGEST_PASSAGE = 1_000_000  # maximum number of characters to search for one answer


class Answerer(EncoderPipeline[Question, str]):
    """Finds answers of at most `max_answer` tokens; a long passage is read in windows that overlap by `stride` tokens."""

    task: ClassVar[str] = "question-answering"

    def __init__(
        self, model: Bert, tokenizer: Tokenizer, max_length: Positions = 256, stride: CountOrNone = 96, max_answer: Count = 30
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.stride, self.max_answer = stride, max_answer

    @property
    def settings(self) -> dict[str, Json]:
        return {**super().settings, "stride": self.stride, "max_answer": self.max_answer}

    def run(self, inputs: Sequence[tuple[str, str]], options: Options | None = None) -> list[Answer]:
        found = zip(inputs, self.answer(inputs), strict=True)
        return [Answer(question, span.text, span.probability) for (question, _), span in found]

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[Span]:
        """The best span of each (question, passage)."""
        for index, (_, passage) in enumerate(questions):
            if len(passage) > LONGEST_PASSAGE:
                raise InputError(f"a passage of {len(passage):,} characters is too long; give at most {LONGEST_PASSAGE:,}", index)
        best: list[tuple[float, str]] = [(-math.inf, "")] * len(questions)
        totals = [-math.inf] * len(questions)
        for window, spans in self.scored_spans(questions):
            number, passage = window.number, questions[window.number][1]
            totals[number] = float(torch.logaddexp(torch.tensor(totals[number]), spans.flatten().logsumexp(0).cpu()))
            at = int(spans.argmax())
            value = float(spans.flatten()[at])
            if value > best[number][0]:
                best[number] = (value, span_text(window, at, passage))
        return [
            Span(text, math.exp(value - total) if value > -math.inf else 0.0)
            for (value, text), total in zip(best, totals, strict=True)
        ]

    def scored_spans(self, questions: Sequence[tuple[str, str]]) -> Iterator[tuple[QuestionWindow, Tensor]]:
        """Every window of each (question, passage) with the scores (n, n) of its spans from first to last passage token; −∞
        for spans that cannot be an answer. Windows without a possible answer are left out."""
        windows = list(question_windows(questions, self.tokenizer, self.max_length, self.stride))
        edges = [word_edges(passage) for _, passage in questions]
        for i, logits in self.outputs([w.ids for w in windows], [w.first for w in windows]):
            spans = self.spans(windows[i], logits, edges[windows[i].number])
            if spans is not None:
                yield windows[i], spans

    def spans(self, window: QuestionWindow, logits: Tensor, edges: tuple[frozenset[int], frozenset[int]]) -> Tensor | None:
        """The scores (n, n) of the spans of a window, from logits (L, 2) of its tokens; None if none can be an answer."""
        if not window.offsets:
            return None
        inside = logits[window.begin : window.begin + len(window.offsets)].float()  # (n, 2)
        spans = inside[:, 0, None] + inside[None, :, 1]  # (n starts, n ends)
        allowed = torch.ones_like(spans, dtype=torch.bool).triu().tril(self.max_answer - 1)
        allowed &= whole_words(window.offsets, *edges).to(spans.device)
        return spans.masked_fill(~allowed, -math.inf) if allowed.any() else None

    def read_examples(self, path: Path, drops: Drops) -> list[Question]:
        return list(read_squad(path, drops))

    def predict(self, examples: Sequence[Question]) -> list[str]:
        """The answer found for each question."""
        return [text for text, _ in self.answer([(q.question, q.context) for q in examples])]

    def row_of(self, example: Question) -> tuple[list[int], int | None]:
        window = next(question_windows([(example.question, example.context)], self.tokenizer, self.max_length, self.stride))
        return window.ids, window.first

    def scores(self, examples: Sequence[Question], outputs: Sequence[str]) -> dict[str, float]:
        return span_scores(outputs, [[text for text, _ in question.answers] for question in examples])

    def samples(self, examples: Sequence[Question], outputs: Sequence[str]) -> list[Sample]:
        return [
            {"input": q.question, "passage": q.context, "output": text, "reference": q.answers[0][0]}
            for q, text in zip(examples, outputs, strict=True)
        ]


def span_text(window: QuestionWindow, at: int, passage: str) -> str:
    """The text of the span with this index among the (n, n) spans of a window."""
    first, last = divmod(at, len(window.offsets))
    return passage[window.offsets[first][0] : window.offsets[last][1]].strip()
