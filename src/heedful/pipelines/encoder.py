"""What all BERT pipelines share: rows of ids framed as [CLS] A [SEP] (B [SEP]), in batches of similar length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from torch import Tensor

from heedful.data.collation import frame, segments_of
from heedful.errors import UsageError
from heedful.models.bert import Bert
from heedful.pipelines.pipeline import Example, ModelOutput, Pipeline, by_budget
from heedful.settings import Json, Positions, Values
from heedful.text import Tokenizer

BATCH_TOKENS = 4096  # per batch


class EncoderPipeline(Pipeline[Example, ModelOutput]):
    """A BERT and its tokenizer. A text longer than `max_length` tokens, the two special ones included, is cut."""

    task: ClassVar[str]
    model: Bert

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_length: Positions = 128) -> None:
        if max_length < 3:
            raise UsageError(f"max_length must be at least 3, not {max_length}")
        model.config.check_length(max_length)
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    @property
    def settings(self) -> dict[str, Json]:
        return {"max_length": self.max_length}

    @classmethod
    def assemble(cls, model: Bert, tokenizers: dict[str, Tokenizer], settings: Values) -> Self:
        return cls(model, tokenizers["tokenizer"], **settings)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, cut to what fits between [CLS] and [SEP]."""
        return [ids[: self.max_length - 2] for ids in self.tokenizer.encode_batch(texts)]

    def framed(
        self, rows: Sequence[Sequence[int]], firsts: Sequence[int] | None = None
    ) -> Iterator[tuple[list[int], Tensor, Tensor | None, Tensor]]:
        """Batches of rows of ids, as the model reads them: their indices, and tokens, segments and mask (B, L).

        `firsts` gives the length of part A of rows that hold two parts (A, [SEP], B).
        """
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        with self.working():
            for batch in by_budget(order, [len(row) + 2 for row in rows], BATCH_TOKENS):
                arrays = [np.array(rows[i], dtype=np.uint32) for i in batch]
                tokens, mask = frame(arrays, self.tokenizer.pad, self.tokenizer.bos, self.tokenizer.eos)
                segments = segments_of(tokens.size(1), [firsts[i] for i in batch]) if firsts is not None else None
                tokens, mask = tokens.to(self.device), mask.to(self.device)
                yield batch, tokens, None if segments is None else segments.to(self.device), mask

    def outputs(self, rows: Sequence[Sequence[int]], firsts: Sequence[int] | None = None) -> Iterator[tuple[int, Tensor]]:
        """Run rows of ids through the model: the index and output of each, (classes,) for a sequence or (L, …) for its tokens."""
        for numbers, tokens, segments, mask in self.framed(rows, firsts):
            found = self.output(tokens, segments, mask)
            for place, i in enumerate(numbers):
                yield i, found[place] if found.dim() == 2 else found[place, : len(rows[i]) + 2]

    @abstractmethod
    def row_of(self, example: Example) -> tuple[list[int], int | None]:
        """An example as the ids of one row, and the length of its first part when it has two."""

    def output(self, tokens: Tensor, segments: Tensor | None, mask: Tensor) -> Tensor:
        """The model's output for a batch (B, L): (B, classes) for sequences, (B, L, …) for tokens."""
        found: Tensor = self.model(tokens, segments, mask)
        return found


AnyEncoder: TypeAlias = EncoderPipeline[Any, Any]  # of any job
