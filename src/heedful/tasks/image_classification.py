"""Image classification as a job for the trainer: images with classes, augmented at random while training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from heedful.data.batches import Indices, Position, deal_batches
from heedful.data.collation import TensorBatch
from heedful.data.drops import Drops
from heedful.data.images import LabelledImages, Pixels, crop, flip, mixup, read_digits, read_folder, to_floats
from heedful.data.prepare import Facts, Reporter, prepare_once, read_manifest
from heedful.data.splits import SPLIT_NAMES, hash_of
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.data_settings import ImageSettings
from heedful.models.vit import ViT, ViTConfig
from heedful.pipelines.image_classifier import ImageClassifier
from heedful.recipes import Recipe
from heedful.tasks.task import Task


@dataclass(frozen=True)
class ImageBatch(TensorBatch):
    """Images (B, C, H, W) and their class probabilities (B, classes), which mixup blends."""

    images: Tensor
    targets: Tensor


class ImageTask(Task[ViT, ImageBatch]):
    """Learns which class an image belongs to."""

    unit = "images"
    config: ViTConfig

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.classes: list[str] = read_manifest(folder)["labels"]
        self.images, self.labels = self.stored("train")
        self.valid, self.test = (
            [(image, self.classes[label]) for image, label in zip(*self.stored(split), strict=True)] for split in SPLIT_NAMES[1:]
        )
        data = recipe.data
        self.config = self.model_config(classes=len(self.classes), image_size=data.size, channels=data.channels)

    def stored(self, split: str) -> tuple[Pixels, NDArray[np.int64]]:
        """Images (N, C, H, W), read from disk on demand, and labels (N,)."""
        images = np.load(self.folder / f"{split}.images.npy", mmap_mode="r")
        return images, np.load(self.folder / f"{split}.labels.npy")

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        data = recipe.data
        named = {split: Path(getattr(data, split)) for split in SPLIT_NAMES if getattr(data, split)}
        if not data.generate and "train" not in named:
            raise UsageError("no training images: give data.train=FOLDER, with a sub-folder for each class")
        if data.generate and (data.size, data.channels) != (8, 1):
            raise UsageError("the digits are grey and 8 pixels wide: data.size=8 data.channels=1")

        def make(temporary: Path) -> Facts:
            drops = Drops()
            found = read_digits() if data.generate else _read(named, data, drops, reporter)
            for split in SPLIT_NAMES:
                part = found.get(split, LabelledImages(found["train"].images[:0], found["train"].labels[:0], []))
                np.save(temporary / f"{split}.images.npy", part.images)
                np.save(temporary / f"{split}.labels.npy", part.labels)
            summary = f"{len(found['train']):,} images of {len(found['train'].classes)} classes"
            reporter.say(f"data: {summary} to train on, {len(found['valid']):,} for validation")
            if drops.counts:
                reporter.say(f"data: {drops.describe()}")
            return {"summary": summary, "labels": found["train"].classes}

        settings = {"seed": recipe.training.seed, "data": vars(data)}
        prepare_once(settings, list(named.values()), folder, reporter, make)

    def pipeline(self, model: ViT, quick: bool = False) -> ImageClassifier:
        return ImageClassifier(model, self.classes)

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, ImageBatch | None]]:
        training = self.recipe.training
        size = max(1, training.batch_tokens // (self.config.grid**2 + 1))
        size = min(size, training.batch_examples) if training.batch_examples else size

        def plan(epoch: int) -> Iterator[Indices]:
            order = np.random.default_rng([training.seed, epoch]).permutation(len(self.labels))
            for start in range(0, len(order), size):
                yield order[start : start + size]

        return deal_batches(plan, self.batch, position, rank, world)

    def batch(self, indices: Indices, epoch: int) -> ImageBatch:
        """Some images as tensors, augmented as the recipe says: at random, but reproducibly."""
        data = self.recipe.data
        seed = np.random.SeedSequence([self.recipe.training.seed, epoch, int(indices[0])]).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(seed) >> 1)
        pixels, labels = self.images[np.sort(indices)], torch.from_numpy(self.labels[np.sort(indices)])
        if data.crop:  # before scaling, so that the zeros that fill the border are black
            pixels = crop(torch.from_numpy(np.ascontiguousarray(pixels)), data.crop, generator).numpy()
        images = to_floats(np.ascontiguousarray(pixels))
        if data.flip:
            images = flip(images, 0.5, generator)
        if data.mixup:
            return ImageBatch(*mixup(images, labels, len(self.classes), data.mixup, generator))
        return ImageBatch(images, one_hot(labels, len(self.classes)).float())

    def loss(self, model: ViT, batch: ImageBatch) -> tuple[Tensor, Tensor, int]:
        logits, smoothing = model(batch.images), self.recipe.training.label_smoothing
        loss = cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=smoothing)
        plain = cross_entropy(logits, batch.targets, reduction="sum") if smoothing else loss
        return loss, plain, len(batch.targets)


def _read(named: dict[str, Path], data: ImageSettings, drops: Drops, reporter: Reporter) -> dict[str, LabelledImages]:
    """The user's folders; without one for validation, some of the training images are held out by their content."""
    reporter.track("reading the images", None)
    train = read_folder(named["train"], data.size, data.channels, drops=drops)
    if len(train.classes) < 2:
        raise HeedfulError(f"{named['train']} has one class, '{train.classes[0]}'; at least two are needed")
    found = {"train": train}
    for split, path in named.items():
        if split != "train":
            found[split] = read_folder(path, data.size, data.channels, train.classes, drops)
    if "valid" not in found:
        hashes = np.array([hash_of(image.tobytes().hex()) for image in train.images])
        limit = np.sort(hashes)[max(1, min(data.hold_out, len(train) // 10)) - 1]
        if limit == hashes.max():
            raise HeedfulError(
                "the images are too few or too alike to hold some out for validation; give data.valid=FOLDER with other images"
            )
        for split, chosen in (("valid", hashes <= limit), ("train", hashes > limit)):
            found[split] = LabelledImages(train.images[chosen], train.labels[chosen], train.classes)
    return found
