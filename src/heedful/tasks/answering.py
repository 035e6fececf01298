"""Extractive question answering as a job for the trainer: where in a passage an answer begins and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from heedful.data.collation import segments_of
from heedful.data.country_facts import write_cldr_questions
from heedful.data.prepare import Facts
from heedful.data.prepare_examples import Maker, Reader, write_in_groups
from heedful.data.question_windows import QuestionWindow, question_windows
from heedful.data.squad import Question, read_squad
from heedful.data.token_store import Rows
from heedful.jobs.data_settings import ExampleSettings, QuestionSettings
from heedful.models.bert import Bert
from heedful.pipelines.answerer import Answerer
from heedful.recipes import Recipe
from heedful.tasks.encoder import EncoderBatch, LabelledTask
from heedful.text import Tokenizer


class AnsweringTask(LabelledTask):
    """Learns the first and the last token of the answer. In the store a target is (tokens of the question, first, last)."""

    read: ClassVar[Reader[Question]] = staticmethod(read_squad)
    generate: ClassVar[Mapping[str, Maker]] = {"facts": lambda folder, data, seed: write_cldr_questions(folder, seed)}
    unit = "questions"

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.valid, self.test = ([Question.from_row(row) for row in rows] for rows in (self.valid, self.test))

    @property
    def classes(self) -> int:
        return 2

    @classmethod
    def texts(cls, example: Question) -> list[str]:
        return [example.context, example.question]

    @classmethod
    def write(cls, examples: list[Question], tokenizer: Tokenizer, data: ExampleSettings, folder: Path) -> Facts:
        assert isinstance(data, QuestionSettings)

        def rows() -> Iterator[Rows]:
            questions = [(q.question, q.context) for q in examples]
            for window in question_windows(questions, tokenizer, data.max_length, data.stride):
                text, start = examples[window.number].answers[0]
                yield window.ids, [window.first, *answer_tokens(window, start, start + len(text))]

        write_in_groups(folder, rows())
        return {}

    def segments(self, tokens: Tensor, targets: list[NDArray[np.uint32]]) -> Tensor:
        return segments_of(tokens.size(1), [int(target[0]) for target in targets])

    def pipeline(self, model: Bert, quick: bool = False) -> Answerer:
        data = self.recipe.data
        return Answerer(model, self.tokenizer, data.max_length, data.stride, data.max_answer)

    def loss(self, model: Bert, batch: EncoderBatch) -> tuple[Tensor, Tensor, int]:
        logits = model(batch.tokens, batch.segments, batch.mask)  # (B, L, 2)
        assert isinstance(logits, Tensor)
        logits = logits.float().masked_fill(~batch.mask[:, :, None], -1e9)
        sums = [cross_entropy(logits[:, :, side], batch.labels[:, 1 + side], reduction="sum") for side in (0, 1)]
        loss = (sums[0] + sums[1]) / 2
        return loss, loss, len(batch.labels)


def answer_tokens(window: QuestionWindow, start: int, end: int) -> tuple[int, int]:
    """The first and last token, in the framed row, that cover the characters [start, end); [CLS] if outside the window."""
    inside = [place for place, (left, right) in enumerate(window.offsets) if left < end and right > start]
    if not inside or window.offsets[0][0] > start or window.offsets[-1][1] < end:
        return 0, 0
    return window.begin + inside[0], window.begin + inside[-1]
