"""What the jobs of a BERT share: examples, a tokenizer, framed batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batches import Indices, Position, deal_batches, plan_epoch
from heedful.data.collation import TensorBatch, frame
from heedful.data.prepare import Facts, Reporter, read_manifest
from heedful.data.prepare_examples import Maker, Reader, held_examples, prepare_examples
from heedful.data.token_store import ParallelStore
from heedful.jobs.data_settings import ExampleSettings
from heedful.jobs.registry import JOBS
from heedful.models.bert import Bert, BertConfig
from heedful.recipes import Recipe
from heedful.tasks.task import BatchType, Task, keep_tokenizer, kept_tokenizer, ready_files, ready_tokenizer
from heedful.text import Tokenizer


@dataclass(frozen=True)
class EncoderBatch(TensorBatch):
    """Framed rows (B, L): tokens, segments, a mask that is False at padding, and labels."""

    tokens: Tensor
    segments: Tensor
    mask: Tensor
    labels: Tensor


class EncoderTask(Task[Bert, BatchType]):
    """Examples in a token store: `source` is the row between [CLS] and [SEP], `target` what the job learns."""

    read: ClassVar[Reader[Any]]  # reads the job's examples
    generate: ClassVar[Mapping[str, Maker]]  # the built-in corpora, by their names for `data.generate`
    masked: ClassVar[bool] = False  # whether the vocabulary needs [MASK]
    config: BertConfig

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.tokenizer = kept_tokenizer(folder)
        self.manifest = read_manifest(folder)
        self.train = ParallelStore(folder)
        self.valid, self.test = held_examples(folder, "valid"), held_examples(folder, "test")
        head = JOBS[recipe.task].head
        pooling = {} if head == "sequence" else {"pooling": "cls"}  # even if a pre-trained model has another maximum length
        self.config = self.model_config(vocab=self.tokenizer.size, head=head, classes=self.classes, **pooling)
        self.config.check_length(recipe.data.max_length, "data.max_length")  # a pre-trained model decides its own limit

    @property
    def classes(self) -> int:
        """Outputs of the head."""
        return len(self.manifest["labels"])

    # Defined by each job

    @classmethod
    @abstractmethod
    def texts(cls, example: Any) -> list[str]:
        """The texts of an example. A vocabulary is trained on them; examples with the same first text share a split."""

    @classmethod
    @abstractmethod
    def write(cls, examples: list[Any], tokenizer: Tokenizer, data: ExampleSettings, folder: Path) -> Facts:
        """Write the training examples to a store; returns facts for the manifest, such as `labels`."""

    @classmethod
    def check_examples(cls, examples: list[Any], path: str) -> None:
        """Raise an error if the training examples of this file cannot be used; called before some are held out."""

    # Shared by all

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        settings = recipe.tokenizer

        def write(examples: list[Any], temporary: Path) -> Facts:
            tokenizer = ready_tokenizer(recipe)
            if tokenizer is None:
                reporter.track(f"learning a vocabulary ({settings.kind})", None)
                texts = (text for example in islice(examples, settings.sample) for text in cls.texts(example))
                tokenizer = Tokenizer.train(settings.kind, texts, settings.size, masked=cls.masked)
            reporter.track("tokenising", None)
            return {**cls.write(examples, tokenizer, recipe.data, temporary), **keep_tokenizer(tokenizer, temporary)}

        prepare_examples(
            recipe.data,
            {"tokenizer": vars(settings), "from": recipe.model["pretrained"]},
            recipe.training.seed,
            ready_files(recipe),
            folder,
            reporter,
            cls.read,
            cls.generate.get(recipe.data.generate),
            lambda example: cls.texts(example)[0],
            write,
            cls.check_examples,
        )

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, BatchType | None]]:
        training, lengths = self.recipe.training, self.lengths

        def plan(epoch: int) -> Iterator[Indices]:
            return plan_epoch(lengths, lengths, training.batch_tokens, training.seed, epoch, training.batch_examples)

        return deal_batches(plan, self.batch, position, rank, world)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each example, by which batches are made."""
        return self.train.source.lengths

    @abstractmethod
    def batch(self, indices: Indices, epoch: int) -> BatchType:
        """Some examples of the store as tensors."""


class LabelledTask(EncoderTask[EncoderBatch]):
    """One text, or a question and a passage, with labels for the whole or for its tokens."""

    def batch(self, indices: Indices, epoch: int) -> EncoderBatch:
        rows, targets = [self.train.source[i] for i in indices], [self.train.target[i] for i in indices]
        tokens, mask = frame(rows, self.tokenizer.pad, self.tokenizer.bos, self.tokenizer.eos)
        return EncoderBatch(tokens, self.segments(tokens, targets), mask, self.labels(targets, tokens.size(1)))

    def segments(self, tokens: Tensor, targets: list[NDArray[np.uint32]]) -> Tensor:
        """(B, L) of a batch: one text is all segment 0."""
        return torch.zeros_like(tokens)

    def labels(self, targets: list[NDArray[np.uint32]], length: int) -> Tensor:
        """The targets of a batch as one tensor, for rows framed to `length`."""
        return torch.from_numpy(np.stack(targets).astype(np.int64))
