"""The class of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, overload

import numpy as np
import torch
from torch import Tensor

from heedful.data.drops import Drops
from heedful.data.images import Pixels, data_uri, read_folder, read_image, to_floats
from heedful.errors import HeedfulError, InputError
from heedful.evaluation.classification import classification_scores, top_scores
from heedful.evaluation.score_names import Sample
from heedful.jobs.options import ClassifyOptions, Options
from heedful.jobs.results import Classification, Label
from heedful.models.vit import ViT
from heedful.pipelines.classifier import check_labels
from heedful.pipelines.pipeline import Pipeline, as_list, options_of
from heedful.settings import Json, Values
from heedful.text import Tokenizer

BATCH = 64  # images per batch
TOP = 5
THUMBNAIL = 96  # pixels

Paths = list[str] | list[Path] | tuple[str | Path, ...]  # several; a Sequence[str] could be a single name, too
LabelledImage = tuple[Pixels, str]  # an image (C, H, W) and its class


class ImagePrediction(NamedTuple):
    """The prediction for an image."""

    ranked: list[str]  # the most probable classes
    nll: float  # −log p of the right one


class ImageClassifier(Pipeline[LabelledImage, ImagePrediction]):
    """Sorts images into `labels`."""

    task: ClassVar[str] = "image-classification"
    model: ViT

    def __init__(self, model: ViT, labels: Sequence[str]) -> None:
        check_labels(labels, model.config.classes)
        self.model, self.labels = model, list(labels)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {}

    @property
    def settings(self) -> dict[str, Json]:
        return {"labels": self.labels}

    @classmethod
    def assemble(cls, model: ViT, tokenizers: dict[str, Tokenizer], settings: Values) -> Self:
        return cls(model, **settings)

    @overload
    def classify(self, paths: str | Path, **options: int) -> Sequence[Label]: ...

    @overload
    def classify(self, paths: Paths, **options: int) -> list[Sequence[Label]]: ...

    def classify(self, paths: str | Path | Paths, **options: int) -> Sequence[Label] | list[Sequence[Label]]:
        """The most probable classes of an image file, or of each of several (`ClassifyOptions`: `top`)."""
        several, alone = as_list(paths)
        found = [result.labels for result in self.run(several, ClassifyOptions.of(**options))]
        return found[0] if alone else found

    def run(self, inputs: Sequence[str | Path | bytes], options: Options | None = None) -> list[Classification]:
        """Each input is an image file, or the contents of one."""
        images = [self.image(path, index) for index, path in enumerate(inputs)]
        best = self.logits(images).softmax(-1).topk(min(options_of(ClassifyOptions, options).top, len(self.labels)), dim=-1)
        return [
            Classification(
                "image" if isinstance(path, bytes) else str(path),
                [Label(self.labels[k], p) for p, k in zip(probabilities, numbers, strict=True)],
            )
            for path, probabilities, numbers in zip(inputs, best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def image(self, source: str | Path | bytes, index: int) -> Pixels:
        """An image file, or the contents of one, as model input; `index` is its number among several inputs."""
        try:
            return read_image(
                source if isinstance(source, bytes) else Path(source), self.model.config.image_size, self.model.config.channels
            )
        except HeedfulError as error:
            raise InputError(str(error), index) from error

    def logits(self, images: Sequence[Pixels]) -> Tensor:
        """(N, classes)"""
        with self.working():
            parts = [
                self.model(to_floats(np.stack(images[start : start + BATCH])).to(self.device)).float().cpu()
                for start in range(0, len(images), BATCH)
            ]
        return torch.cat(parts) if parts else torch.zeros(0, len(self.labels))

    def read_examples(self, path: Path, drops: Drops) -> list[LabelledImage]:
        found = read_folder(path, self.model.config.image_size, self.model.config.channels, self.labels, drops)
        return [(image, self.labels[label]) for image, label in zip(found.images, found.labels, strict=True)]

    def tensor_of(self, example: LabelledImage) -> Tensor:
        """An example as model input, (1, C, H, W)."""
        return to_floats(np.stack([example[0]]))

    def predict(self, examples: Sequence[LabelledImage]) -> list[ImagePrediction]:
        log_probabilities = self.logits([image for image, _ in examples]).log_softmax(-1)
        best = log_probabilities.topk(min(TOP, len(self.labels)), dim=-1).indices.tolist()
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [
            ImagePrediction([self.labels[k] for k in ranked], -float(row[numbers[label]]))
            for (_, label), ranked, row in zip(examples, best, log_probabilities, strict=True)
        ]

    def scores(self, examples: Sequence[LabelledImage], outputs: Sequence[ImagePrediction]) -> dict[str, float]:
        right = [label for _, label in examples]
        ranked = [found.ranked for found in outputs]
        loss = sum(found.nll for found in outputs) / max(1, len(outputs))
        return {**classification_scores([best[0] for best in ranked], right), **top_scores(ranked, right), "loss": loss}

    def samples(self, examples: Sequence[LabelledImage], outputs: Sequence[ImagePrediction]) -> list[Sample]:
        """As for every job, plus the `image` itself as a data URI."""
        return [
            {"input": f"image {number}", "image": data_uri(image, THUMBNAIL), "output": found.ranked[0], "reference": label}
            for number, ((image, label), found) in enumerate(zip(examples, outputs, strict=True), 1)
        ]
