"""`heedful export`: a heedful model in someone else's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Example:

`heedful export runs/language-model/best exported --to huggingface`
"""


def export(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/language-model.")],
    out: Annotated[Path, typer.Argument(help="The directory to write.")],
    to: Annotated[str, typer.Option(help="The format: huggingface.")] = "huggingface",
) -> None:
    """Write a model so that other software loads it: `transformers` by AutoModel.from_pretrained."""
    from heedful.errors import UsageError, did_you_mean
    from heedful.interop.huggingface import export_huggingface
    from heedful.pipelines.directory import find_directory

    if to != "huggingface":
        raise UsageError(f"there is no format '{to}'{did_you_mean(to, ['huggingface'])}")
    typer.echo(export_huggingface(find_directory(model), out))
