"""Images while training: changed at random, in a way that seed and epoch determine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import small_recipe, write_images
from heedful.errors import HeedfulError, UsageError
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.tasks.image_classification import ImageTask

EVERY = np.arange(0, 48, 4)  # of both classes


def task_with(folder: Path, *overrides: str) -> ImageTask:
    recipe = small_recipe("image-classification", folder, *overrides)
    ImageTask.prepare(recipe, folder / "data", Silence())
    return ImageTask(recipe, folder / "data")


def test_without_augmentation_images_are_as_they_were_stored(tmp_path: Path) -> None:
    task = task_with(tmp_path)
    batch = task.batch(EVERY, 0)
    assert torch.equal(batch.images, task.batch(EVERY, 7).images)
    assert batch.targets.argmax(1).tolist() == task.labels[EVERY].tolist()
    upper = batch.images[:, 0, :4].mean((1, 2)) > batch.images[:, 0, 4:].mean((1, 2))
    assert [task.classes[int(label)] == "upper" for label in task.labels[EVERY]] == upper.tolist()


@pytest.mark.parametrize("change", ["data.crop=2", "data.flip=true", "data.mixup=0.4"])
def test_what_is_done_to_an_image_follows_from_the_epoch(change: str, tmp_path: Path) -> None:
    task = task_with(tmp_path, change)
    first, again, other = (task.batch(EVERY, epoch) for epoch in (0, 0, 1))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.images, other.images)
    torch.testing.assert_close(first.targets.sum(1), torch.ones(12))
    plain = "mixup" not in change
    assert plain == bool((first.targets.max(1).values == 1).all())


def test_what_is_judged_is_never_changed(tmp_path: Path) -> None:
    plain, changed = task_with(tmp_path / "a"), task_with(tmp_path / "b", "data.crop=2", "data.flip=true", "data.mixup=0.4")
    assert len(plain.valid) == len(changed.valid) == 6
    for (one, label), (other, same) in zip(plain.valid, changed.valid, strict=True):
        assert np.array_equal(one, other)
        assert label == same


def test_one_class_is_not_enough(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images", 4)
    for path in (folder / "upper").iterdir():
        path.unlink()
    (folder / "upper").rmdir()
    recipe = load_recipe("image-classification", [f"data.train={folder}"])
    with pytest.raises(HeedfulError, match="has one class, 'lower'; at least two are needed"):
        ImageTask.prepare(recipe, tmp_path / "data", Silence())


def test_the_digits_have_one_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data\.size=8 data\.channels=1"):
        ImageTask.prepare(load_recipe("image-classification", ["data.size=16"]), tmp_path / "data", Silence())
