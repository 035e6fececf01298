"""Tables of numbers for the terminal and for pages: larger numbers have stronger colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heedful.explain.templates import environment
from heedful.page.inline import inlined_styles


class Cell(NamedTuple):
    """One field: its text, and how strongly it is coloured, from 0 to 1."""

    text: str
    share: float = 0.0


@dataclass(frozen=True)
class TableView:
    """A table with a title and a sentence on what it shows."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]  # the first cell of a row is its name


def table_page(title: str, about: str, tables: Sequence[TableView], **more: object) -> str:
    """A page with some tables that needs no network; `more` are further values for its template."""
    template = environment().get_template("tables.template.html")
    values = {"charts": [], "notes": [], **more}
    return template.render(title=title, about=about, tables=tables, styles=inlined_styles("style/colours.css"), **values)
