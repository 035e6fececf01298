"""Which class an image belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from heedful.data.corpus import Drops
from heedful.data.images import Pixels, data_uri, read_folder, read_image, to_floats
from heedful.evaluation import classification_scores, top_scores
from heedful.models.vit import ViT
from heedful.pipelines.directory import Pipeline
from heedful.text import Tokenizer

BATCH = 64  # images at one time
TOP = 5
THUMBNAIL = 96  # pixels

Example = tuple[Pixels, str]  # an image (C, H, W) and its class


class ImageClassifier(Pipeline):
    """Sorts images into `labels`."""

    task: ClassVar[str] = "image-classification"
    model: ViT

    def __init__(self, model: ViT, labels: Sequence[str]) -> None:
        self.model, self.labels = model, list(labels)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"labels": self.labels}

    @classmethod
    def assemble(cls, model: Any, tokenizers: dict[str, Tokenizer], settings: dict[str, Any]) -> Self:
        return cls(model, **settings)

    def classify(self, paths: Sequence[str | Path], top: int = 1) -> list[list[tuple[str, float]]]:
        """The `top` likeliest classes of each image file with their probabilities, best first."""
        size, channels = self.model.config.image_size, self.model.config.channels
        images = [read_image(Path(path), size, channels) for path in paths]
        best = self.logits(images).softmax(-1).topk(min(top, len(self.labels)), dim=-1)
        return [
            [(self.labels[k], p) for p, k in zip(chances, numbers, strict=True)]
            for chances, numbers in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    @torch.no_grad()
    def logits(self, images: Sequence[Pixels]) -> Tensor:
        """(N, classes)"""
        was_training = self.model.training
        self.model.eval()
        parts = [
            self.model(to_floats(np.stack(images[start : start + BATCH])).to(self.device)).float().cpu()
            for start in range(0, len(images), BATCH)
        ]
        self.model.train(was_training)
        return torch.cat(parts) if parts else torch.zeros(0, len(self.labels))

    def read_examples(self, path: Path, drops: Drops) -> list[Example]:
        found = read_folder(path, self.model.config.image_size, self.model.config.channels, self.labels, drops)
        return [(image, self.labels[label]) for image, label in zip(found.images, found.labels, strict=True)]

    def tensor_of(self, example: Example) -> Tensor:
        """An example as the model sees it, (1, C, H, W)."""
        return to_floats(np.stack([example[0]]))

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """Of each image: the five likeliest classes, and −log p of the right one."""
        chances = self.logits([image for image, _ in examples]).log_softmax(-1)
        best = chances.topk(min(TOP, len(self.labels)), dim=-1).indices.tolist()
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [
            [[self.labels[k] for k in ranked], -float(row[numbers[label]])]
            for (_, label), ranked, row in zip(examples, best, chances, strict=True)
        ]

    def scores(self, examples: Sequence[Example], outputs: Sequence[Any]) -> dict[str, Any]:
        right = [label for _, label in examples]
        ranked = [row[0] for row in outputs]
        loss = sum(row[1] for row in outputs) / max(1, len(outputs))
        return {**classification_scores([row[0] for row in ranked], right), **top_scores(ranked, right), "loss": loss}

    def samples(self, examples: Sequence[Example], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """As for every job, and the `image` itself as a data URI."""
        return [
            {"input": f"image {number}", "image": data_uri(image, THUMBNAIL), "output": row[0][0], "reference": label}
            for number, ((image, label), row) in enumerate(zip(examples, outputs, strict=True), 1)
        ]
