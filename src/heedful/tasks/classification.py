"""Text classification as a job for the trainer: texts with one label each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from heedful.data.labelled_texts import read_labelled
from heedful.data.language_names import write_language_names
from heedful.data.listops import write_listops
from heedful.data.long_recall import write_long_recall
from heedful.data.prepare import Facts
from heedful.data.prepare_examples import Maker, Reader, write_in_groups
from heedful.errors import HeedfulError
from heedful.jobs.data_settings import ClassificationSettings, ExampleSettings
from heedful.models.bert import Bert
from heedful.pipelines.classifier import Classifier
from heedful.tasks.encoder import EncoderBatch, LabelledTask
from heedful.text import Tokenizer


class ClassificationTask(LabelledTask):
    """Learns which label a text has."""

    read: ClassVar[Reader[tuple[str, str]]] = staticmethod(read_labelled)
    generate: ClassVar[Mapping[str, Maker]] = {
        "languages": lambda folder, data, seed: write_language_names(folder, seed, _examples(data)),
        "long-recall": lambda folder, data, seed: write_long_recall(folder, seed, _examples(data), data.max_length - 2),
        "listops": lambda folder, data, seed: write_listops(folder, seed, _examples(data)),
    }

    @classmethod
    def texts(cls, example: tuple[str, str]) -> list[str]:
        return [example[0]]

    @classmethod
    def write(cls, examples: list[tuple[str, str]], tokenizer: Tokenizer, data: ExampleSettings, folder: Path) -> Facts:
        labels = sorted({label for _, label in examples})
        if len(labels) < 2:
            raise HeedfulError(f"every training example has the label '{labels[0]}'; at least two are needed")
        known = {label: number for number, label in enumerate(labels)}
        encoded = tokenizer.encode_batch([text for text, _ in examples])
        rows = ((ids[: data.max_length - 2], [known[label]]) for ids, (_, label) in zip(encoded, examples, strict=True))
        write_in_groups(folder, rows)
        return {"labels": labels}

    def pipeline(self, model: Bert, quick: bool = False) -> Classifier:
        return Classifier(model, self.tokenizer, self.manifest["labels"], self.recipe.data.max_length)

    def loss(self, model: Bert, batch: EncoderBatch) -> tuple[Tensor, Tensor, int]:
        logits, labels = model(batch.tokens, batch.segments, batch.mask), batch.labels[:, 0]
        smoothing = self.recipe.training.label_smoothing
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        plain = loss if not smoothing else torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        return loss, plain, len(labels)


def _examples(data: ExampleSettings) -> int | None:
    """How many training examples to generate; None for the corpus's usual number."""
    assert isinstance(data, ClassificationSettings)
    return data.examples or None
