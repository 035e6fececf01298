"""`heedful info`: what a model directory holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Example:

`heedful info runs/dates/best`
"""


def info(model: Annotated[Path, typer.Argument(help="A model directory, such as runs/dates/best.")]) -> None:
    """Show a model's card and its parameters, part by part."""
    from heedful.pipelines import load_pipeline

    pipeline = load_pipeline(model)
    typer.echo(pipeline.card)
    counts = pipeline.model.parameters_by_part()
    for part, count in counts.items():
        typer.echo(f"{part.replace('_', ' '):18} {count:>12,}")
    typer.echo(f"{'all':18} {sum(counts.values()):>12,}")
    sizes = [f"{tokenizer.size:,}" for tokenizer in pipeline.tokenizers.values()]
    if sizes:
        typer.echo(f"vocabulary         {' → '.join(sizes)}")
