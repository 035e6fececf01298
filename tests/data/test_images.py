"""Images: folders as users have them, the digits and their split, and augmentation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from heedful.data.drops import Drops
from heedful.data.images import crop, fit_image, flip, mixup, read_digits, read_folder, read_image, to_floats
from heedful.errors import HeedfulError

RED, GREEN = (250, 10, 10), (10, 250, 10)


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, three formats, and one image in a nested folder."""
    for name, colour in (("red", RED), ("green", GREEN)):
        (tmp_path / name / "more").mkdir(parents=True)
        for file in ("a.png", "b.jpg", "more/c.bmp"):
            Image.new("RGB", (20, 12), colour).save(tmp_path / name / file)
    return tmp_path


# Reading


def test_every_sub_folder_is_a_class(folder: Path) -> None:
    found = read_folder(folder, 8)
    assert found.classes == ["green", "red"]
    assert (found.images.shape, found.images.dtype) == ((6, 3, 8, 8), np.uint8)
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    for image, label in zip(found.images, found.labels, strict=True):
        assert np.abs(image.mean((1, 2)) - (GREEN, RED)[label]).max() < 5  # JPEG is lossy


def test_files_that_are_not_images_are_counted_and_named(folder: Path) -> None:
    whole = (folder / "red" / "b.jpg").read_bytes()
    (folder / "red" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "green" / "notes.txt").write_text("these are green")
    (folder / "green" / "empty.png").touch()
    (folder / "green" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (folder / "green" / ".DS_Store").write_text("created by the operating system")
    (folder / ".cache").mkdir()
    drops = Drops()
    found = read_folder(folder, 8, drops=drops)
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert sum(drops.counts.values()) == 4
    assert "green/broken.png" in drops.describe()


def test_held_out_images_use_the_classes_of_the_training_images(folder: Path) -> None:
    found = read_folder(folder, 8, classes=["blue", "red", "green", "black"])
    assert found.classes == ["blue", "red", "green", "black"]
    assert found.labels.tolist() == [2, 2, 2, 1, 1, 1]
    drops = Drops()
    assert read_folder(folder, 8, classes=["blue", "red"], drops=drops).labels.tolist() == [1, 1, 1]
    assert drops.counts["of a class the model does not know"] == 3
    with pytest.raises(HeedfulError, match=r"no image in .* is of a class the model knows; its classes are blue, white"):
        read_folder(folder, 8, classes=["blue", "white"])


def test_a_folder_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="there is no folder"):
        read_folder(tmp_path / "nowhere", 8)
    with pytest.raises(HeedfulError, match="has no sub-folders; images need one sub-folder per class"):
        read_folder(tmp_path, 8)
    (tmp_path / "cat").mkdir()
    with pytest.raises(HeedfulError, match="cat has no image that can be read"):
        read_folder(tmp_path, 8)
    with pytest.raises(HeedfulError, match=f"{tmp_path} has no image that can be read"):
        read_folder(tmp_path, 8, classes=["dog", "cat"])


def test_without_the_packages_an_error_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for read in (lambda: read_image(folder / "red" / "a.png", 8), lambda: read_folder(folder, 8), read_digits):
        with pytest.raises(HeedfulError, match=r"pip install 'heedful\[vision\]'"):
            read()


def test_an_unreadable_image_is_an_error_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="there is no image"):
        read_image(tmp_path / "nothing.png", 8)
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(HeedfulError, match=r"text\.png cannot be read as an image"):
        read_image(tmp_path / "text.png", 8)


def test_an_image_of_the_right_size_is_kept_pixel_by_pixel(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png", 8), pixels.transpose(2, 0, 1))
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "b.png")
    assert np.array_equal(read_image(tmp_path / "b.png", 8, channels=1), pixels[None, :, :, 0])
    assert np.array_equal(read_image(tmp_path / "b.png", 8), np.repeat(pixels[None, :, :, 0], 3, axis=0))


@pytest.mark.parametrize("upright", [False, True])
def test_a_wide_or_tall_image_is_centre_cropped_not_distorted(upright: bool) -> None:
    pixels = np.zeros((8, 24), dtype=np.uint8)
    pixels[:, 8:16] = 200
    assert (fit_image(Image.fromarray(pixels.T if upright else pixels), 8, 1) == 200).all()


def test_a_photograph_is_rotated_by_its_exif_orientation(tmp_path: Path) -> None:
    image = Image.new("L", (8, 8))
    image.paste(200, (0, 0, 8, 4))  # bright above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    image.save(tmp_path / "a.png", exif=exif)
    found = read_image(tmp_path / "a.png", 8, 1)[0]
    assert (found[:4] == 0).all()
    assert (found[4:] == 200).all()


def test_transparency_becomes_white_and_sixteen_bit_images_keep_their_shades() -> None:
    assert (fit_image(Image.new("RGBA", (8, 8), (0, 0, 0, 0)), 8) == 255).all()
    shades = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024
    assert np.array_equal(fit_image(Image.fromarray(shades), 8, 1)[0], shades // 256)
    palette = Image.new("RGB", (8, 8), RED).convert("P")
    assert fit_image(palette, 8)[0].min() > 200


# The digits


def test_the_split_of_the_digits_never_changes() -> None:
    splits, again = read_digits(), read_digits()
    assert sum(len(part) for part in splits.values()) == 1797
    assert {name: len(part) for name, part in splits.items()} == {name: len(part) for name, part in again.items()}
    shares = {name: len(part) / 1797 for name, part in splits.items()}
    assert shares == pytest.approx({"test": 0.15, "valid": 0.10, "train": 0.75}, abs=0.03)
    seen = [{image.tobytes() for image in part.images} for part in splits.values()]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 1797  # no image is in two splits
    for part in splits.values():
        assert part.images.shape[1:] == (1, 8, 8)
        assert (part.images.dtype, part.images.min(), part.images.max()) == (np.uint8, 0, 255)
        assert set(part.labels.tolist()) == set(range(10))
        assert part.classes == list("0123456789")


def test_bytes_become_numbers_between_minus_one_and_one() -> None:
    assert to_floats(np.array([0, 255], dtype=np.uint8)).tolist() == [-1.0, 1.0]


# Augmentation


def test_flipping_twice_is_the_identity_and_once_is_the_mirror_image() -> None:
    images = torch.rand(4, 3, 5, 6)
    once = flip(images, 1.0, seeded())
    assert torch.equal(once, images.flip(3))
    assert torch.equal(flip(once, 1.0, seeded()), images)
    assert torch.equal(flip(images, 0.0, seeded()), images)


def test_each_image_is_flipped_independently() -> None:
    images = torch.rand(400, 1, 2, 3)
    flipped = flip(images, 0.3, seeded())
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    assert bool((mirrored | (flipped == images).flatten(1).all(1)).all())
    assert mirrored.float().mean().item() == pytest.approx(0.3, abs=0.1)


def test_a_crop_is_a_shift_padded_with_zeros() -> None:
    images = torch.rand(300, 2, 4, 5) + 1.0
    cropped = crop(images, 2, seeded())
    assert cropped.shape == images.shape
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    shifts = set()
    for image, shifted in zip(padded, cropped, strict=True):
        places = [(y, x) for y in range(5) for x in range(5) if torch.equal(image[:, y : y + 4, x : x + 5], shifted)]
        assert len(places) == 1
        shifts.add(places[0])
    assert len(shifts) == 25  # in every direction
    assert torch.equal(crop(images, 0, seeded()), images)


def test_mixup_keeps_the_mean_and_mixes_classes_as_it_mixes_images() -> None:
    labels = torch.arange(6) % 3
    images = torch.nn.functional.one_hot(labels, 3).double()[:, :, None, None].expand(6, 3, 2, 2)  # the class can be seen
    mixed, targets = mixup(images, labels, 3, 0.8, seeded())
    assert torch.allclose(mixed.mean(0), images.mean(0))
    assert torch.allclose(targets.sum(1), torch.ones(6).double())
    assert torch.allclose(mixed, targets[:, :, None, None].expand(6, 3, 2, 2))
    assert not torch.allclose(mixed, images)


def test_a_small_alpha_mixes_little_and_a_large_one_half_and_half() -> None:
    images, labels = torch.rand(8, 1, 2, 2), torch.arange(8)
    generator = seeded()
    rare = [mixup(images, labels, 8, 0.01, generator)[1].amax(1).min().item() for _ in range(30)]
    even = [mixup(images, labels, 8, 1000.0, generator)[1].amax(1).min().item() for _ in range(30)]
    assert np.median(rare) > 0.99
    assert max(even) < 0.6


def test_the_same_seed_gives_the_same_images_and_the_next_call_different_ones() -> None:
    images, labels = torch.rand(16, 1, 6, 6), torch.arange(16) % 4

    def augment(generator: torch.Generator) -> list[torch.Tensor]:
        mixed = mixup(images, labels, 4, 0.5, generator)
        return [flip(images, 0.5, generator), crop(images, 2, generator), *mixed]

    generator = seeded(3)
    first, second = augment(generator), augment(generator)
    torch.manual_seed(99)  # nothing else takes part
    np.random.seed(99)
    for one, same, other in zip(first, augment(seeded(3)), second, strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
