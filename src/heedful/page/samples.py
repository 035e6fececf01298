"""Inputs to try on the page: those of the run that a model comes from, or a file of the user's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from heedful.data.images import data_uri, read_image
from heedful.errors import HeedfulError
from heedful.runtime.files import os_error_sentence
from heedful.settings import JsonObject

PageSample: TypeAlias = dict[str, str]  # "text"; "question" and "passage"; or "image", a data URI, and "label"
SHOWN = 6  # inputs that are offered
LONGEST = 400  # characters of a text that is offered, if there are shorter ones
PICTURE = 384  # pixels
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")


def samples_of_run(folder: Path, job: str) -> list[PageSample]:
    """The inputs of the samples in the results of the run that a model directory belongs to, if it belongs to one."""
    path = folder.resolve().parent / "results.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["samples"]
        if job == "language-model":  # all but the first are cut out of a text, anywhere
            found = [
                {**one, "input": from_a_line_on(str(one["input"])) if number else one["input"]}
                for number, one in enumerate(found)
            ]
        return chosen([sample for one in found if (sample := _sample(one, job))])
    except (OSError, ValueError, KeyError, TypeError):
        return []  # a page without samples works as well


def _sample(one: JsonObject, job: str) -> PageSample | None:
    if job == "image-classification":
        return {"image": str(one["image"]), "label": str(one["reference"])} if one.get("image") else None
    if job == "question-answering":
        return {"question": str(one["input"]), "passage": str(one["passage"])} if one.get("passage") else None
    text = str(one["input"]).strip("\n")
    return {"text": text} if text.strip() else None


def from_a_line_on(text: str) -> str:
    """What follows the first end of a line, or of a word, in the first half of a text: it may begin in the middle of one."""
    half = len(text) // 2
    cut = text.find("\n", 0, half) + 1 or text.find(" ", 0, half) + 1
    return text[cut:]


def chosen(samples: Sequence[PageSample]) -> list[PageSample]:
    """A few of them: short ones if there are any, and no image of a class before there is one of every other class."""
    short = [one for one in samples if len(one.get("text") or one.get("passage") or "") <= LONGEST]
    seen: dict[str, int] = {}
    ranked = []
    for number, one in enumerate(short or samples):
        label = one.get("label", str(number))
        seen[label] = seen.get(label, 0) + 1
        ranked.append((seen[label], number, one))
    return [one for _, _, one in sorted(ranked, key=lambda entry: entry[:2])][:SHOWN]


def samples_of_file(path: Path, job: str) -> list[PageSample]:
    """A text file with one input per line (a question and its passage are separated by a tab), or a folder of images."""
    try:
        if job == "image-classification":
            if not path.is_dir():
                raise HeedfulError(f"the samples of an image classifier are a folder of images; {path} is none")
            files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in PICTURES and file.is_file()]
            found = [{"image": data_uri(_pixels(file), PICTURE), "label": file.parent.name} for file in files[:SHOWN]]
        else:
            lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()][:SHOWN]
            found = [_line(line, number, path, job) for number, line in enumerate(lines, 1)]
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    except UnicodeDecodeError as error:
        raise HeedfulError(f"{path} is not UTF-8 text") from error
    if not found:
        raise HeedfulError(f"{path} has no samples")
    return found


def _line(line: str, number: int, path: Path, job: str) -> PageSample:
    if job != "question-answering":
        return {"text": line}
    question, tab, passage = line.partition("\t")
    if not tab:
        raise HeedfulError(f"line {number} of {path} has no tab between a question and its passage")
    return {"question": question, "passage": passage}


def _pixels(file: Path) -> Any:
    """An image as it is, up to the size that is shown."""
    from PIL import Image

    with Image.open(file) as image:
        side = min(*image.size, PICTURE)
    return read_image(file, side)
