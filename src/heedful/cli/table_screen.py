"""Tables on the terminal, limited to its width, or in full width in a file or pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from heedful.explain.tables import TableView

STRONG, WEAK = 0.5, 0.02  # from and below which share a cell is bold, or dim


def wide_console(widest: int = 1000) -> Console:
    """Where tables are printed; a file or a pipe gets lines of any length."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=widest)


def show_tables(tables: Sequence[TableView]) -> None:
    """Print tables with their titles; large shares are bold."""
    console = wide_console()
    for number, view in enumerate(tables):
        if number:
            console.print()
        console.print(Text(view.title, style="bold"))
        if view.about:
            console.print(Text(view.about, style="dim"), soft_wrap=not console.is_terminal)
        if not view.rows:
            continue
        table = Table(*(Column(name, overflow="fold") for name in view.columns), box=SIMPLE)
        for first, *rest in view.rows:
            cells = [Text(cell.text, "bold" if cell.share >= STRONG else "dim" if 0 < cell.share < WEAK else "") for cell in rest]
            table.add_row(Text(first.text), *cells)
        console.print(table)
