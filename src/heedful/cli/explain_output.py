"""Where an explanation goes: to a file whose name decides the format, to standard output as JSON, or to the terminal."""

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
    """Something with tables, a picture and a JSON form."""

    def tables(self) -> Sequence[TableView]: ...

    def plot(self) -> Figure: ...

    def as_json(self) -> JsonObject: ...


@dataclass(frozen=True)
class Output:
    """The output that the options --out and --json ask for."""

    path: Path | None
    as_json: bool

    def give(
        self,
        page: Callable[[], str],
        figure: Callable[[], Figure],
        json_value: Callable[[], JsonObject],
        show: Callable[[], None],
    ) -> None:
        """Produce the requested form only."""
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
