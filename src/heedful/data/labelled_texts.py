"""Labelled texts from CSV, TSV or JSONL: the examples for text classification."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from heedful.data.drops import LONGEST_DOCUMENT, Drops, at_least_one, reason_to_drop, whole_text
from heedful.data.lines import read_json_rows, read_lines
from heedful.errors import HeedfulError

TEXT_NAMES = ("text", "sentence")  # of the text column; GLUE uses "sentence"


def read_labelled(path: Path, drops: Drops) -> Iterator[tuple[str, str]]:
    """Every usable (text, label), in order; the others are counted in `drops`.

    A CSV is quoted as spreadsheets do it, and a text may span several lines. In a TSV, quotation marks are ordinary
    characters and every line is an example. Both have two columns, text and label, or a header line that names these
    columns. JSONL has objects with "text" and "label"; the label may be a number.
    """
    suffixes = {suffix.lower() for suffix in path.suffixes}
    if {".jsonl", ".json"} & suffixes:
        rows = _json_rows(path, drops)
    else:
        rows = _table_rows(_csv_cells(path) if ".csv" in suffixes else _tsv_cells(path), path, drops)
    yield from at_least_one(_usable(rows, drops), "labelled text", path, drops)


def _usable(rows: Iterator[tuple[str, str, str]], drops: Drops) -> Iterator[tuple[str, str]]:
    for where, text, label in rows:
        reason = reason_to_drop(text, longest=LONGEST_DOCUMENT)
        reason = reason or (reason_to_drop(label) if label.strip() else "without a label")
        if reason:
            drops.add(reason, where)
        else:
            yield text, label.strip()


def _json_rows(path: Path, drops: Drops) -> Iterator[tuple[str, str, str]]:
    for where, row in read_json_rows(path, drops):
        text, label = (row.get("text"), row.get("label")) if isinstance(row, dict) else (None, None)
        if isinstance(text, str) and isinstance(label, (str, int, float)):
            # As JSON writes it: 1, 0.5, true.
            yield where, whole_text(text), whole_text(label) if isinstance(label, str) else json.dumps(label)
        else:
            drops.add('without "text" and "label"', where)


def _tsv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), 1):
        yield number, line.split("\t") if line.strip() else []


def _csv_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    begin = 1
    try:
        for cells in rows:
            yield begin, cells
            begin = rows.line_num + 1
    except csv.Error as error:
        raise HeedfulError(f"{path} line {begin} is not CSV: {error}; check its quotation marks") from error


def _table_rows(rows: Iterator[tuple[int, list[str]]], path: Path, drops: Drops) -> Iterator[tuple[str, str, str]]:
    """(where, text, label) of each row, by the column names in a header line if there is one."""
    columns, text, label = 2, 0, 1
    for index, (number, cells) in enumerate(rows):
        where = f"{path.name} line {number}"
        names = [cell.strip().lower() for cell in cells]
        heading = next((name for name in TEXT_NAMES if name in names), None)
        if index == 0 and heading and "label" in names:
            columns, text, label = len(names), names.index(heading), names.index("label")
        elif not cells:
            drops.add("empty", where)
        elif len(cells) != columns:
            drops.add(f"with a number of columns other than {columns}", where)
        else:
            yield where, cells[text], cells[label]
