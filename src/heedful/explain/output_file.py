"""Writes an explanation as a page, a picture or JSON, depending on the file name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.errors import HeedfulError, UsageError
from heedful.explain.figures import require_matplotlib, save_figure
from heedful.runtime.files import write_json, write_text
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")


def check_output(path: Path, pages: bool = True) -> None:
    """Raise an error, before any work, if the file could not be written."""
    endings = (*([".html"] if pages else []), *PICTURES, ".json")
    if path.suffix.lower() not in endings:
        raise UsageError(f"the name of {path} must end in {', '.join(endings[:-1])} or {endings[-1]}, which says what is written")
    if not path.absolute().parent.is_dir():
        raise HeedfulError(f"there is no directory {path.parent} to write {path.name} into")
    if path.suffix.lower() in PICTURES:
        require_matplotlib()


def write_output(path: Path, page: Callable[[], str], figure: Callable[[], Figure], json_value: Callable[[], JsonObject]) -> None:
    """Write the form that the ending of `path` asks for; no other is produced."""
    path = path.absolute()
    if path.suffix.lower() == ".html":
        write_text(path, page())
    elif path.suffix.lower() == ".json":
        write_json(path, json_value())
    else:
        save_figure(figure(), path)
