"""Images with a class each: from a folder, or scikit-learn's digits; and what is done to them while training.

Shapes: N images, B batch, C channels (3 is colour, 1 is grey), H height, W width.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.data.drops import Drops
from heedful.data.splits import hash_of
from heedful.errors import HeedfulError

if TYPE_CHECKING:
    from PIL import Image

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
SPLITS = {"test": (0, 15), "valid": (15, 25), "train": (25, 100)}  # per cent of the digits
EXACT = 64  # pixels along a side of the largest image that a page shows pixel by pixel
INSTALL = "pip install 'heedful[vision]'"


@dataclass(frozen=True)
class LabelledImages:
    """Images (N, C, H, W) of bytes, the number of each one's class (N,), and the names of the classes."""

    images: Pixels
    labels: np.ndarray[Any, np.dtype[np.int64]]
    classes: list[str]

    def __len__(self) -> int:
        return len(self.labels)


# Reading


def require_pillow() -> None:
    """An error in words when Pillow, which only images need, is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise HeedfulError(f"reading images needs Pillow; install it with: {INSTALL}") from error


def fit_image(image: Image.Image, size: int, channels: int = 3) -> Pixels:
    """Upright, its shorter side brought to `size`, the middle cut out, in colour or grey: (channels, size, size)."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)  # cameras store how they were held
    if image.mode.startswith("I;16"):  # Pillow would cut off all that is brighter than a 256th
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC))
    return np.ascontiguousarray(pixels[None] if channels == 1 else pixels.transpose(2, 0, 1))


def read_image(path: Path, size: int, channels: int = 3) -> Pixels:
    """An image file of any format that Pillow knows, as `fit_image` makes it."""
    require_pillow()
    from PIL import Image

    try:
        with Image.open(path) as image:
            return fit_image(image, size, channels)
    except FileNotFoundError as error:
        raise HeedfulError(f"there is no image {path}") from error
    except Exception as error:  # a damaged file makes Pillow's readers raise almost anything
        raise HeedfulError(f"{path} cannot be read as an image: {str(error) or type(error).__name__}") from error


def read_folder(
    folder: Path, size: int, channels: int = 3, classes: Sequence[str] | None = None, drops: Drops | None = None
) -> LabelledImages:
    """The images of a folder with a sub-folder for each class; a file that is no image is counted in `drops`.

    The classes are the sub-folders' names in order. A folder of held-out images takes the `classes` of the training
    images, and may lack some of them.
    """
    require_pillow()  # its absence is not the fault of every file
    drops = Drops() if drops is None else drops
    if not folder.is_dir():
        raise HeedfulError(f"there is no folder {folder}")
    found = sorted(inner.name for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith("."))
    if not found:
        raise HeedfulError(f"{folder} has no sub-folders; images need a sub-folder for each class, named after it")
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
    """scikit-learn's 1,797 handwritten digits, grey and 8×8, split for good by a hash of the image itself."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise HeedfulError(f"the digits come with scikit-learn; install it with: {INSTALL}") from error
    bunch = load_digits()
    images = (bunch.images * (255 / 16)).round().astype(np.uint8)[:, None]  # (N, 1, 8, 8); they come as 0 … 16
    buckets = np.array([hash_of(image.tobytes().hex()) % 100 for image in images])
    splits = {}
    for split, (low, high) in SPLITS.items():
        chosen = (buckets >= low) & (buckets < high)
        splits[split] = LabelledImages(images[chosen], bunch.target[chosen].astype(np.int64), [str(n) for n in range(10)])
    return splits


def to_floats(images: Pixels) -> Tensor:
    """Bytes → a tensor of the same shape between −1 and 1, as a ViT reads images."""
    return torch.from_numpy(images).float() / 127.5 - 1.0


def data_uri(image: Pixels, longest: int) -> str:
    """An image (C, H, W) for a web page: a small one exactly, as PNG; a larger one as JPEG, at most `longest` pixels wide."""
    require_pillow()
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)))
    kind = "png" if max(picture.size) <= EXACT else "jpeg"
    picture.thumbnail((longest, longest))
    file = io.BytesIO()
    picture.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


# Augmentation: a model without inductive bias is shown what does not change a class


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
    """λ of each image (B, C, H, W) with 1 − λ of another one, λ drawn from Beta(α, α) for the batch.

    labels (B,) are mixed alike: targets (B, classes) with the two classes' shares.
    """
    order = torch.randperm(images.size(0), generator=generator).to(images.device)
    # PyTorch's Beta distribution takes no generator, so NumPy's gets its seed from this one.
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    share = float(np.random.default_rng(seed).beta(alpha, alpha))
    targets = F.one_hot(labels, classes).to(images.dtype)
    return images.lerp(images[order], 1.0 - share), targets.lerp(targets[order], 1.0 - share)
