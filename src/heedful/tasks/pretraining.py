"""BERT's pre-training as a job for the trainer (BERT, Section 3.1): predict masked tokens and whether a text follows another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from heedful.data.batches import Indices
from heedful.data.collation import TensorBatch, frame, segments_of
from heedful.data.documents import read_documents
from heedful.data.masking import mask_tokens
from heedful.data.prepare import Facts
from heedful.data.prepare_examples import Maker, Reader, write_in_groups
from heedful.data.python_reference import write_topic_sentences
from heedful.data.sentence_pairs import SentencePair, chunks_of, pairs_of
from heedful.data.token_store import Rows
from heedful.errors import HeedfulError
from heedful.jobs.data_settings import ExampleSettings
from heedful.models.bert import Bert
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.masked import MaskedModel
from heedful.recipes import Recipe
from heedful.tasks.encoder import EncoderTask
from heedful.text import Tokenizer


@dataclass(frozen=True)
class PretrainingBatch(TensorBatch):
    """Pairs of texts (B, L) with N masked tokens: their positions, the original tokens, and which second texts do not follow."""

    tokens: Tensor
    segments: Tensor
    mask: Tensor
    where: Tensor  # (B, L)
    answers: Tensor  # (N,)
    strangers: Tensor  # (B,): 0 the second text follows the first, 1 it does not

    def pieces(self, positions: int) -> list[Self]:
        """One piece: `answers` is not split by example."""
        return [self]


class PretrainingTask(EncoderTask[PretrainingBatch]):
    """Learns from documents. In the store a row is a chunk of a document, half as long as the model's input; its target is
    the number of the document."""

    read: ClassVar[Reader[list[str]]] = staticmethod(read_documents)
    generate: ClassVar[Mapping[str, Maker]] = {"topics": lambda folder, data, seed: write_topic_sentences(folder, seed)}
    masked = True
    unit = "masked tokens"

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.document = self.train.target.ids  # (N,), one per chunk
        self.valid, self.test = (self.pairs(documents) for documents in (self.valid, self.test))
        if not self.valid:
            raise HeedfulError("the held-out text is too short for a pair of texts; give data.valid=FILE")

    @property
    def classes(self) -> int:
        return 0

    @classmethod
    def texts(cls, example: list[str]) -> list[str]:
        return example

    @classmethod
    def check_examples(cls, examples: list[list[str]], path: str) -> None:
        if len(examples) < 2:
            raise HeedfulError(
                f"{path} is a single document of {len(examples[0]):,} lines, because it has no blank lines; put one between "
                "documents, so that the model can learn which text follows another"
            )

    @classmethod
    def write(cls, examples: list[list[str]], tokenizer: Tokenizer, data: ExampleSettings, folder: Path) -> Facts:
        if len(examples) < 2:
            raise HeedfulError("one document is not enough to learn which text follows another; give more documents")

        def rows() -> Iterator[Rows]:
            for number, document in enumerate(examples):
                for chunk in chunks_of(document, tokenizer, data.max_length):
                    yield chunk, [number]

        write_in_groups(folder, rows())
        return {}

    def pairs(self, documents: Sequence[list[str]]) -> list[SentencePair]:
        """Held-out documents as pairs of texts; in half of them the second follows the first."""
        chunks = [
            (number, chunk)
            for number, document in enumerate(documents)
            for chunk in chunks_of(document, self.tokenizer, self.recipe.data.max_length)
        ]
        return pairs_of(chunks)

    def pipeline(self, model: Bert, quick: bool = False) -> MaskedModel:
        return MaskedModel(model, self.tokenizer, self.recipe.data.max_length, self.recipe.data.masked)

    @property
    def lengths(self) -> NDArray[np.int32]:
        return 2 * self.train.source.lengths + 1  # the second text is about as long

    def batch(self, indices: Indices, epoch: int) -> PretrainingBatch:
        """Pair each chunk with the next one, or with a chunk of another document; each epoch masks different tokens."""
        rows, firsts, places, answers, strangers = [], [], [], [], []
        for index in indices:
            rng = np.random.default_rng([self.recipe.training.seed, epoch, int(index)])
            other, stranger = self.partner(int(index), rng)
            first, second = self.train.source[index].tolist(), self.train.source[other].tolist()
            example = (first, second, not stranger)
            row, where, right = mask_tokens(example, self.tokenizer, self.recipe.data.masked, self.config.vocab, rng)
            rows.append(row)
            firsts.append(len(first))
            places.append(where)
            answers.append(right)
            strangers.append(int(stranger))
        tokens, mask = frame(rows, self.tokenizer.pad, self.tokenizer.bos, self.tokenizer.eos)
        where_all = torch.zeros(tokens.shape, dtype=torch.bool)
        for number, where in enumerate(places):
            where_all[number, 1 : 1 + len(where)] = torch.from_numpy(where)  # [CLS] comes first
        found = torch.from_numpy(np.concatenate(answers).astype(np.int64))
        return PretrainingBatch(tokens, segments_of(tokens.size(1), firsts), mask, where_all, found, torch.tensor(strangers))

    def partner(self, index: int, rng: np.random.Generator) -> tuple[int, bool]:
        """The next chunk of the document or, half of the time, a chunk of another one; and whether it is from another one."""
        follows = index + 1 < len(self.document) and self.document[index + 1] == self.document[index]
        if follows and rng.random() < 0.5:
            return index + 1, False
        while True:
            other = int(rng.integers(0, len(self.document)))
            if self.document[other] != self.document[index]:
                return other, True

    def loss(self, model: Bert, batch: PretrainingBatch) -> tuple[Tensor, Tensor, int]:
        states = model.states(batch.tokens, batch.segments, batch.mask)
        words, weight, bias = model.masked_states(states, batch.where)
        loss, nll = label_smoothed_loss(words, weight, bias, batch.answers, self.recipe.training.label_smoothing)
        strangers = cross_entropy(model.next_sentence_logits(states), batch.strangers, reduction="none")  # (B,)
        # The loss is the sum of two means. The trainer divides by the number of masked tokens, so a pair's
        # next-sentence loss is multiplied by its number of masked tokens: then the sums of several processes add up.
        return loss + (strangers * batch.where.sum(1)).sum(), nll, len(batch.answers)
