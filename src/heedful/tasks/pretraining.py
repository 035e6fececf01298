"""BERT's pre-training as a job for the trainer (BERT, Section 3.1): predict masked tokens and whether a text follows another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heedful.data.batches import Indices, Position, deal_batches, plan_epoch
from heedful.data.documents import read_documents
from heedful.data.examples import Maker, Reader, write_in_groups
from heedful.data.framing import TensorBatch, frame, segments_of
from heedful.data.masking import mask_tokens
from heedful.data.python_reference import write_topic_sentences
from heedful.data.sentence_pairs import SentencePair, chunks_of, pairs_of
from heedful.errors import HeedfulError
from heedful.models.bert import Bert
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.masked import MaskedModel
from heedful.recipes import Recipe
from heedful.tasks.encoder import EncoderTask
from heedful.text import Tokenizer


@dataclass(frozen=True)
class PretrainingBatch(TensorBatch):
    """Pairs of texts (B, L) with hidden tokens: where they are, what the N of them were; and which pairs do not follow."""

    tokens: Tensor
    segments: Tensor
    mask: Tensor
    where: Tensor  # (B, L)
    answers: Tensor  # (N,)
    strangers: Tensor  # (B,): 0 the second text follows the first, 1 it does not

    def pieces(self, positions: int) -> list[Self]:
        """Whole: the answers of an example are not its own row."""
        return [self]


class PretrainingTask(EncoderTask):
    """Learns from documents. In the store a row is a chunk of a document, half as long as the model reads; its target is
    the number of the document."""

    read: ClassVar[Reader] = staticmethod(read_documents)
    generate: ClassVar[Maker] = staticmethod(write_topic_sentences)
    masked = True
    unit = "masked tokens"

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.document = self.train.target.ids  # (N,), one per chunk
        self.valid, self.test = (self.pairs(documents) for documents in (self.valid, self.test))
        if not self.valid:
            raise HeedfulError(
                "the held-out text has no two parts that follow each other or are of different documents; give data.valid=FILE"
            )

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
    def write(cls, examples: list[list[str]], tokenizer: Tokenizer, data: Any, folder: Path) -> dict[str, Any]:
        if len(examples) < 2:
            raise HeedfulError("one document is not enough to learn which text follows another; give more documents")

        def rows() -> Any:
            for number, document in enumerate(examples):
                for chunk in chunks_of(document, tokenizer, data.max_length):
                    yield chunk, [number]

        write_in_groups(folder, rows())
        return {}

    def pairs(self, documents: Sequence[list[str]]) -> list[SentencePair]:
        """Held-out documents as pairs of texts, every second of which really follows."""
        chunks = [
            (number, chunk)
            for number, document in enumerate(documents)
            for chunk in chunks_of(document, self.tokenizer, self.recipe.data.max_length)
        ]
        return pairs_of(chunks)

    def pipeline(self, model: Bert, quick: bool = False) -> MaskedModel:
        return MaskedModel(model, self.tokenizer, self.recipe.data.max_length, self.recipe.data.masked)

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, Any]]:
        training = self.recipe.training
        lengths = 2 * self.train.source.lengths + 1  # the second text is about as long

        def plan(epoch: int) -> Iterator[Indices]:
            return plan_epoch(lengths, lengths, training.batch_tokens, training.seed, epoch, training.batch_examples)

        return deal_batches(plan, self.hidden_batch, position, rank, world)

    def hidden_batch(self, indices: Indices, epoch: int) -> PretrainingBatch:
        """Each chunk with the one after it, or with a stranger; what is hidden changes with the epoch."""
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
            where_all[number, 1 : 1 + len(where)] = torch.from_numpy(where)  # [CLS] stands first
        found = torch.from_numpy(np.concatenate(answers).astype(np.int64))
        return PretrainingBatch(tokens, segments_of(tokens.size(1), firsts), mask, where_all, found, torch.tensor(strangers))

    def partner(self, index: int, rng: np.random.Generator) -> tuple[int, bool]:
        """The next chunk of the document or, half of the time, one of another document; and which of the two it is."""
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
        # The sum of the two means: what is divided by the number of hidden tokens later is multiplied by it here, pair by
        # pair, so that the shares of several processes add up.
        return loss + (strangers * batch.where.sum(1)).sum(), nll, len(batch.answers)
