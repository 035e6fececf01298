"""How all of heedful's Matplotlib figures are made and labelled."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from heedful.errors import HeedfulError
from heedful.runtime.files import write_whole
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL = "pip install 'heedful[plots]'"
LABELLED = 80  # maximum number of rows or columns with labels
LARGEST = 60.0  # inches of a side
HEAT, SIGNED = "Blues", "RdBu_r"  # colours of what is positive, and of what has a sign
LINES = ("#3d43b4", "#c2410c", "#047857", "#7e22ce", "#0369a1", "#b7791f", "#be123c", "#4d7c0f")
SPACES = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"}
# Fonts with letters that the default one lacks, by the names they have on different systems; those installed are used.
FONTS = (
    "DejaVu Sans", "Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Serif CJK JP", "Malgun Gothic", "Apple SD Gothic Neo",
    "Hiragino Sans", "Yu Gothic", "Microsoft YaHei", "PingFang SC", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji",
)  # fmt: skip


def require_matplotlib() -> None:
    """Raise an error when matplotlib, which only pictures need, is not installed."""
    if find_spec("matplotlib") is None:
        raise HeedfulError(f"drawing a picture needs matplotlib; install it with: {INSTALL}")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    require_matplotlib()
    if "IPython" in sys.modules:  # so that notebooks know how to show a figure
        pass
    from matplotlib.figure import Figure

    return Figure(figsize=(min(width, LARGEST), min(height, LARGEST)), layout="constrained")


@cache
def fonts() -> list[str]:
    """The fonts to take letters from."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in FONTS if name in installed] or ["sans-serif"]


def label_of(text: str) -> str:
    """A token as a label: white space becomes visible, and nothing disturbs the line."""
    if not text.strip():
        return "".join(SPACES.get(letter, "␣") for letter in text) or "∅"
    return "".join(letter if unicodedata.category(letter) != "Cc" else SPACES.get(letter, "·") for letter in text)


def text_style(size: float = 8) -> JsonObject:
    """Text properties of tokens: a font that has their letters, and no interpretation as a formula."""
    return {"fontsize": size, "fontfamily": fonts(), "parse_math": False}


def label_axes(axes: Axes, rows: Sequence[str] | None, columns: Sequence[str] | None, size: float = 8) -> None:
    """Names along the left side and the top; None, or too many of them, for no names."""
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    for names, axis, angle in ((rows, axes.yaxis, 0), (columns, axes.xaxis, 90)):
        if names is None or len(names) > LABELLED:
            axis.set_ticks([])
        else:
            shown = [label_of(name) for name in names]
            axis.set_ticks(range(len(names)), labels=shown, rotation=angle, **text_style(size))
    for side in axes.spines.values():
        side.set_visible(False)


def heat_map(
    axes: Axes,
    values: NDArray[Any],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    highest: float | None = None,
    signed: bool = False,
    aspect: Any = "equal",
) -> Any:
    """A matrix as colours with names at its sides; the colour scale ends at `highest`, by default the largest value."""
    finite = values[abs(values) < math.inf]
    most = highest if highest is not None else float(abs(finite).max()) if finite.size else 1.0
    image = axes.imshow(
        values,
        cmap=SIGNED if signed else HEAT,
        vmin=-most if signed else 0.0,
        vmax=most or 1.0,
        aspect=aspect,
        interpolation="nearest",
    )
    label_axes(axes, rows, columns)
    return image


def decode_picture(uri: str) -> NDArray[Any]:
    """The pixels (H, W) or (H, W, C) of an image in a data URI."""
    import base64
    import io

    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
        return np.asarray(image)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the ending of its name says (png, svg, pdf)."""
    import warnings

    from matplotlib import rc_context

    kind = path.suffix.lstrip(".").lower()
    # In an SVG, text stays text, which any reader's fonts can show, and the file is the same every time.
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "svg.hashsalt": "heedful"}):
        warnings.filterwarnings("ignore", "Glyph .* missing")
        metadata = {"Date": None} if kind == "svg" else None
        write_whole(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=150, metadata=metadata))
