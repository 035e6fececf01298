"""`heedful classify`: which class a text, or an image, belongs to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful classify runs/classification "Frankreich" "Γαλλία"`

`heedful classify runs/sst2 --input reviews.txt --top 2 --json`

`heedful classify runs/image-classification digit.png`
"""


def classify(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/classification.")],
    text: Annotated[
        list[str] | None, typer.Argument(help="Texts, or image files; without them, lines are read from stdin.")
    ] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a text, or the name of an image, a line.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to show, likeliest first.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Classify texts or images: arguments, a file, or standard input."""
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    classifier = load_pipeline(model, pick_device(device), "classify", ("classification", "image-classification"))
    for group in groups_of_lines(text, input):
        for line, found in zip(group, classifier.classify(group, top), strict=True):
            if as_json:
                labels = [{"label": label, "probability": p} for label, p in found]
                print(json.dumps({"input": line, "labels": labels}, ensure_ascii=False))
            else:
                print("  ".join(f"{label} {p:.1%}" for label, p in found))
        sys.stdout.flush()
