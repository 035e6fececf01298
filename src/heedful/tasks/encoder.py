"""What the jobs of a BERT share: labelled examples, a tokenizer, framed batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.batches import Indices, Position, deal_batches, plan_epoch
from heedful.data.examples import Maker, Reader, held_examples, prepare_examples
from heedful.data.framing import TensorBatch, frame
from heedful.data.prepare import Reporter
from heedful.data.token_store import ParallelStore
from heedful.errors import UsageError
from heedful.jobs.registry import JOBS
from heedful.recipes import Recipe
from heedful.tasks.task import Task, keep_tokenizer, kept_tokenizer, manifest_of, ready_files, ready_tokenizer
from heedful.text import Tokenizer


@dataclass(frozen=True)
class EncoderBatch(TensorBatch):
    """Framed rows (B, L): tokens, segments, which are real, and what is to be learned of them."""

    tokens: Tensor
    segments: Tensor
    mask: Tensor
    labels: Tensor


class EncoderTask(Task):
    """Examples whose ids stand in a store: `source` the row between [CLS] and [SEP], `target` what is to be learned."""

    read: ClassVar[Reader]
    generate: ClassVar[Maker]
    masked: ClassVar[bool] = False  # whether the vocabulary needs [MASK]

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.tokenizer = kept_tokenizer(folder)
        self.manifest = manifest_of(folder)
        self.train = ParallelStore(folder)
        self.valid, self.test = held_examples(folder, "valid"), held_examples(folder, "test")
        head = JOBS[recipe.task].head
        pooling = {} if head == "sequence" else {"pooling": "cls"}  # whatever a pre-trained model had
        self.config = self.model_config(vocab=self.tokenizer.size, head=head, classes=self.classes, **pooling)
        longest, positions = recipe.data.max_length, self.config.max_positions
        if longest > positions:  # of a pre-trained model; a fresh one was checked with its recipe
            raise UsageError(f"data.max_length {longest} is more than the model's {positions} positions")

    @property
    def classes(self) -> int:
        """Outputs of the head."""
        return len(self.manifest["labels"])

    # What a job fills in

    @classmethod
    @abstractmethod
    def texts(cls, example: Any) -> list[str]:
        """The texts of an example: a vocabulary is learned from them, and the first may not cross the split."""

    @classmethod
    @abstractmethod
    def write(cls, examples: list[Any], tokenizer: Tokenizer, data: Any, folder: Path) -> dict[str, Any]:
        """Put the training examples into a store; what the manifest must know, such as `labels`."""

    def labels(self, targets: list[NDArray[np.uint32]], length: int) -> Tensor:
        """The targets of a batch as one tensor, for rows framed to `length`."""
        return torch.from_numpy(np.stack(targets).astype(np.int64))

    @classmethod
    def check_examples(cls, examples: list[Any], path: str) -> None:
        """Stop, before some are held out, when these training examples of a file cannot teach anything."""

    # What all do alike

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        settings = recipe.tokenizer

        def write(examples: list[Any], temporary: Path) -> dict[str, Any]:
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
            cls.generate,
            lambda example: cls.texts(example)[0],
            write,
            cls.check_examples,
        )

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, EncoderBatch | None]]:
        training, lengths = self.recipe.training, self.train.source.lengths

        def plan(epoch: int) -> Iterator[Indices]:
            return plan_epoch(lengths, lengths, training.batch_tokens, training.seed, epoch, training.batch_examples)

        return deal_batches(plan, self.batch, position, rank, world)

    def batch(self, indices: Indices, epoch: int) -> EncoderBatch:
        """Some examples of the store as tensors."""
        rows, targets = [self.train.source[i] for i in indices], [self.train.target[i] for i in indices]
        tokens, mask = frame(rows, self.tokenizer.pad, self.tokenizer.bos, self.tokenizer.eos)
        return EncoderBatch(tokens, self.segments(tokens, targets), mask, self.labels(targets, tokens.size(1)))

    def segments(self, tokens: Tensor, targets: list[NDArray[np.uint32]]) -> Tensor:
        """(B, L) of a batch: one text is all segment 0."""
        return torch.zeros_like(tokens)
