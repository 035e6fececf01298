"""`heedful compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful compare runs/en-de runs/en-de-wide`

`heedful compare runs/en-de runs/en-de-wide --out compared.html`
"""


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, such as runs/en-de; a single one shows its own curves.")],
    out: Annotated[Path | None, typer.Option(help="Write a .html page, a .png, .svg or .pdf of the curves, or .json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare runs: the settings that differ, the scores, and the learning curves in one chart."""
    import json

    from heedful.cli.table_screen import show_tables
    from heedful.explain.compare import compare as compare_runs
    from heedful.explain.output_file import check_output, write_output
    from heedful.runtime.files import finite

    if out:
        check_output(out)
    comparison = compare_runs(*runs)
    if out:
        write_output(out, comparison.to_html, comparison.plot, comparison.as_json)
    elif as_json:
        typer.echo(json.dumps(finite(comparison.as_json()), ensure_ascii=False))
    else:
        show_tables(comparison.tables())
