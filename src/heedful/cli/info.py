"""`heedful info`: describe a model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Example:

`heedful info runs/dates/best`
"""


def info(model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/dates/best.")]) -> None:
    """Show a model's card and its parameters, part by part."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Column, Table

    from heedful.explain.report import helpers_in
    from heedful.pipelines import load_pipeline

    pipeline = load_pipeline(model)
    console = Console(highlight=False, emoji=False)
    console.print(Markdown(pipeline.card))
    parts = Table("part", Column("parameters", justify="right"), box=SIMPLE)
    counts = pipeline.model.parameters_by_part()
    for part, count in counts.items():
        parts.add_row(part.replace("_", " "), f"{count:,}")
    parts.add_row("all", f"{sum(counts.values()):,}", style="bold")
    console.print(parts)
    sizes = [f"{tokenizer.size:,}" for tokenizer in pipeline.tokenizers.values()]
    if sizes:
        console.print(f"vocabulary {' → '.join(sizes)} tokens")
    for name, about in helpers_in(model).items():
        console.print(f"{name}/ {about}")
