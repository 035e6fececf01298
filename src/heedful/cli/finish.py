"""`heedful finish`: a model and a report from a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Example:

`heedful finish runs/en-de`
"""


def finish(run: Annotated[Path, typer.Argument(help="A run directory, such as runs/dates.")]) -> None:
    """Make models, scores and a report from the last checkpoint of a stopped run. Training can still be continued later."""
    from heedful.cli import console
    from heedful.cli.train import show_results
    from heedful.training.run import finish as finish_run

    show_results(run, finish_run(run, console.screen()))
