"""`heedful fill`: masked words guessed from both sides."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful fill runs/bert-pretraining "the import [MASK] is used to find modules"`

`heedful fill bert-base "Paris is the [MASK] of France." --top 3 --json`
"""


def fill(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/bert-pretraining.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts with [MASK]; without them, lines from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a text a line (plain or gzip).")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many guesses for each [MASK].")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Guess what stands behind [MASK]: in arguments, a file, or standard input."""
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    masked = load_pipeline(model, pick_device(device), "fill", ("bert-pretraining",))
    for group in groups_of_lines(text, input):
        for line, found in zip(group, masked.fill(group, top), strict=True):
            if as_json:
                guesses = [[{"token": token, "probability": p} for token, p in place] for place in found]
                print(json.dumps({"text": line, "masks": guesses}, ensure_ascii=False))
            else:
                for place in found:
                    print("  ".join(f"{token.strip()} {p:.1%}" for token, p in place))
        sys.stdout.flush()
