"""Labelled images, from a folder or scikit-learn's digits, and their augmentation in training.

Shapes: N images, B batch, C channels (3 for colour, 1 for grey), H height, W width.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.drops import Drops
from heedful.data.splits import pick_split
from heedful.errors import HeedfulError

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]
DIGIT_SPLIT_PERCENTAGES = {"test": 15, "valid": 10, "train": 75}
EXACT = 64  # pixels along a side: web pages show images up to this size losslessly
MOST_PIXELS = 50_000_000  # of one image; more would take gigabytes once decompressed
INSTALL = "pip install 'heedful[vision]'"


@dataclass(frozen=True)
class LabelledImages:
    """Images (N, C, H, W) of bytes, the class of each (N,), and the names of the classes."""

    images: Pixels
    labels: NDArray[np.int64]
    classes: list[str]

    def __len__(self) -> int:
        return len(self.labels)


# Reading


def require_pillow() -> None:
    """Raise an error when Pillow, which only images need, is not installed."""
    if find_spec("PIL") is None:
        raise HeedfulError(f"reading images needs Pillow; install it with: {INSTALL}")


def fit_image(image: Image.Image, size: int, channels: int = 3) -> Pixels:
    """An image turned upright, scaled so that its shorter side is `size`, and centre-cropped: (channels, size, size)."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)  # cameras store their orientation
    if image.mode.startswith("I;16"):  # Pillow would clip every value above 255 instead of scaling
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC))
    return np.ascontiguousarray(pixels[None] if channels == 1 else pixels.transpose(2, 0, 1))


def read_image(source: Path | bytes, size: int, channels: int = 3) -> Pixels:
    """Read an image of any format Pillow knows, a file or its contents, through `fit_image`."""
    require_pillow()
    from PIL import Image

    name = "this" if isinstance(source, bytes) else source
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:  # known from the header, before anything is decompressed
                raise HeedfulError(f"{name} has {width:,} × {height:,} pixels; an image may have at most {MOST_PIXELS:,}")
            return fit_image(image, size, channels)
    except FileNotFoundError as error:
        raise HeedfulError(f"there is no image {source!s}") from error
    except HeedfulError:
        raise
    except Exception as error:  # a damaged file makes Pillow's readers raise almost anything
        why = "" if isinstance(source, bytes) else f": {str(error) or type(error).__name__}"
        raise HeedfulError(f"{name} cannot be read as an image{why}") from error


def read_folder(
    folder: Path, size: int, channels: int = 3, classes: Sequence[str] | None = None, drops: Drops | None = None
) -> LabelledImages:
    """The images of a folder with one sub-folder per class; a file that is not an image is counted in `drops`.

    The classes are the sub-folders' names in order. A folder of held-out images uses the `classes` of the training images
    and need not have all of them.
    """
    require_pillow()  # otherwise its absence would count every file as unreadable
    drops = Drops() if drops is None else drops
    if not folder.is_dir():
        raise HeedfulError(f"there is no folder {folder}")
    found = sorted(inner.name for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith("."))
    if not found:
        raise HeedfulError(f"{folder} has no sub-folders; images need one sub-folder per class, named after the class")
    broken = next((name for name in found if not is_text(name)), None)
    if broken is not None:
        raise HeedfulError(f"the folder {os.fsencode(folder / broken)!r} has a name that is not UTF-8; rename it")
    names = found if classes is None else list(classes)
    files = []
    for name in found:
        for path in sorted((folder / name).rglob("*")):
            if path.name.startswith(".") or not path.is_file():
                continue
            if name in names:
                files.append((path, names.index(name)))
            else:
                drops.add("of a class the model does not know", shown_name(path.relative_to(folder)))
    if not files and drops.counts:
        raise HeedfulError(f"no image in {folder} is of a class the model knows; its classes are {', '.join(names)}")
    images = np.empty((len(files), channels, size, size), dtype=np.uint8)
    labels: list[int] = []
    for path, label in files:
        try:
            images[len(labels)] = read_image(path, size, channels)
            labels.append(label)
        except HeedfulError:
            drops.add("unreadable as images", shown_name(path.relative_to(folder)))
    seen = set(labels)
    empty = [folder / name for number, name in enumerate(names) if number not in seen] if classes is None else []
    if empty or not seen:
        raise HeedfulError(f"{empty[0] if empty else folder} has no image that can be read")
    return LabelledImages(images[: len(labels)], np.array(labels, dtype=np.int64), names)


def is_text(name: str) -> bool:
    """Whether the name of a file is valid UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def shown_name(path: Path) -> str:
    """The name of a file as it can be printed."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read_digits() -> dict[str, LabelledImages]:
    """scikit-learn's 1,797 handwritten digits, grey and 8×8, split by a hash of the image itself."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise HeedfulError(f"the digits come with scikit-learn; install it with: {INSTALL}") from error
    bunch = load_digits()
    images = (bunch.images * (255 / 16)).round().astype(np.uint8)[:, None]  # (N, 1, 8, 8); values are 0 … 16
    split_of_image = np.array([pick_split(image.tobytes().hex(), DIGIT_SPLIT_PERCENTAGES) for image in images])
    splits = {}
    for split in DIGIT_SPLIT_PERCENTAGES:
        chosen = split_of_image == split
        splits[split] = LabelledImages(images[chosen], bunch.target[chosen].astype(np.int64), [str(n) for n in range(10)])
    return splits


def to_floats(images: Pixels) -> Tensor:
    """Bytes → a float tensor of the same shape in [−1, 1], the input of a ViT."""
    return torch.from_numpy(images).float() / 127.5 - 1.0


def data_uri(image: Pixels, longest: int) -> str:
    """An image (C, H, W) for a web page: a small one as PNG, a larger one as JPEG of at most `longest` pixels per side."""
    require_pillow()
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)))
    kind = "png" if max(picture.size) <= EXACT else "jpeg"
    picture.thumbnail((longest, longest))
    file = io.BytesIO()
    picture.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


# Augmentation: a ViT has little inductive bias (ViT paper, Section 3.1), so it must see which changes keep the class.


def flip(images: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Each image (B, C, H, W) mirrored left to right with probability p."""
    chosen = (torch.rand(images.size(0), generator=generator) < p).to(images.device)
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def crop(images: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Each image (B, C, H, W) shifted by up to `pixels` in both directions; zeros fill what comes in from outside."""
    count, _, height, width = images.shape
    down, across = torch.randint(0, 2 * pixels + 1, (2, count, 1), generator=generator).to(images.device)
    padded = F.pad(images, (pixels,) * 4)
    rows = (down + torch.arange(height, device=images.device))[:, :, None]  # (B, H, 1)
    columns = (across + torch.arange(width, device=images.device))[:, None, :]  # (B, 1, W)
    which = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows, columns].permute(0, 3, 1, 2)


def mixup(images: Tensor, labels: Tensor, classes: int, alpha: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """λ of each image (B, C, H, W) with 1 − λ of another one, one λ per batch sampled from Beta(α, α).

    labels (B,) are mixed in the same way into targets (B, classes).
    """
    order = torch.randperm(images.size(0), generator=generator).to(images.device)
    # PyTorch's Beta distribution takes no generator, so NumPy's gets its seed from this one.
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    share = float(np.random.default_rng(seed).beta(alpha, alpha))
    targets = F.one_hot(labels, classes).to(images.dtype)
    return images.lerp(images[order], 1.0 - share), targets.lerp(targets[order], 1.0 - share)
