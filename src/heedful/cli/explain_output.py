"""Where an explanation goes: to a file in the form its name asks for, to standard output as JSON, or onto the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from heedful.cli.table_screen import show_tables
from heedful.explain.output_file import write_output
from heedful.explain.tables import TableView, table_page
from heedful.runtime.files import finite
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Tabular(Protocol):
    """Something that is tables, a picture and JSON."""

    def tables(self) -> Sequence[TableView]: ...

    def plot(self) -> Figure: ...

    def as_json(self) -> JsonObject: ...


@dataclass(frozen=True)
class Output:
    """What the options --out and --json ask for."""

    path: Path | None
    as_json: bool

    def give(
        self,
        page: Callable[[], str],
        figure: Callable[[], Figure],
        json_value: Callable[[], JsonObject],
        show: Callable[[], None],
    ) -> None:
        """Make the form that is asked for, and no other."""
        if self.path:
            write_output(self.path, page, figure, json_value)
        elif self.as_json:
            typer.echo(json.dumps(finite(json_value()), ensure_ascii=False))
        else:
            show()

    def write(self, found: Tabular) -> None:
        """The same for tables."""

        def page() -> str:
            tables = found.tables()
            return table_page(tables[0].title if tables else "heedful", "", tables)

        self.give(page, found.plot, found.as_json, lambda: show_tables(found.tables()))
