"""Questions with their passages as model inputs: a long passage is cut into overlapping windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.data.words import split_words
from heedful.text import Tokenizer

LONGEST_QUESTION = 64  # tokens


@dataclass(frozen=True)
class QuestionWindow:
    """A question with part of its passage: ids (question, [SEP], passage), and the characters of each passage token."""

    number: int  # index of the question
    ids: list[int]
    first: int  # tokens of the question
    offsets: list[tuple[int, int]]

    @property
    def begin(self) -> int:
        """Position of the first passage token in the framed row, after [CLS], the question and [SEP]."""
        return self.first + 2


def word_edges(text: str) -> tuple[frozenset[int], frozenset[int]]:
    """The character offsets at which words begin, and those at which they end (exclusive)."""
    words = split_words(text)
    return frozenset(start for _, start, _ in words), frozenset(end for _, _, end in words)


def whole_words(offsets: Sequence[tuple[int, int]], starts: frozenset[int], ends: frozenset[int]) -> Tensor:
    """(n, n): whether the span from first to last token begins and ends at word boundaries; an answer is whole words."""
    first = torch.tensor([any(at in starts for at in range(left, right)) for left, right in offsets])
    last = torch.tensor([right in ends for _, right in offsets])
    return first[:, None] & last[None, :]


def question_windows(
    questions: Sequence[tuple[str, str]], tokenizer: Tokenizer, max_length: int, stride: int
) -> Iterator[QuestionWindow]:
    """Every (question, passage) as one or more windows of at most `max_length` tokens that overlap by `stride`."""
    for number, (question, passage) in enumerate(questions):
        asked = tokenizer.encode(question)[: min(LONGEST_QUESTION, max_length // 2)]
        ids, offsets = tokenizer.encode_with_offsets(passage)
        room = max_length - 3 - len(asked)
        step = max(1, room - stride)
        for start in range(0, max(1, len(ids) - room + step), step):
            part = slice(start, start + room)
            yield QuestionWindow(number, [*asked, tokenizer.eos, *ids[part]], len(asked), offsets[part])
