"""`heedful export`: write a heedful model in another library's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful export runs/dates out --to ctranslate2 --quantize int8`

`heedful export runs/language-model exported --to huggingface`
"""


def export(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/dates.")],
    out: Annotated[Path, typer.Argument(help="The directory to write; for argos and gguf, the file.")],
    to: Annotated[str, typer.Option(help="The format: huggingface, ctranslate2, onnx, argos or gguf.")] = "huggingface",
    quantize: Annotated[
        str | None, typer.Option(help="A lower precision than float32: int8, and for some formats int16, float16, bfloat16.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Load the export with the other software and compare its outputs.")
    ] = True,
) -> None:
    """Write a model so that other software loads it, and prove that it gives the same outputs there."""
    from heedful.interop.export import export_model
    from heedful.pipelines.model_directory import find_directory

    for sentence in export_model(find_directory(model), out, to, quantize, check):
        typer.echo(sentence)
