"""Sentences with one tag per word, in the column format of the CoNLL shared tasks: the examples for tagging."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from heedful.data.drops import LONGEST_TEXT, Drops, at_least_one, has_control
from heedful.data.lines import read_lines

TAG = re.compile(r"O|[BIES]-\S+")


def read_conll(path: Path, drops: Drops) -> Iterator[tuple[list[str], list[str]]]:
    """Every usable sentence as (words, tags), in order; the others are counted in `drops`.

    One word per line: its first column is the word, its last the tag, separated by tabs or spaces. A blank line ends a sentence.
    `-DOCSTART-` lines and comments (`# …` without the columns of a word) are skipped.
    """
    yield from at_least_one(_sentences(path, drops), "sentence", path, drops)


def _sentences(path: Path, drops: Drops) -> Iterator[tuple[list[str], list[str]]]:
    width = 0  # number of columns of the file's first word; all other words must have as many
    rows: list[list[str]] = []
    fault: tuple[str, str] | None = None
    for number, line in enumerate(_with_blank_end(path), 1):
        columns = _columns(line)
        if not columns or columns[0] == "-DOCSTART-":
            if fault:
                drops.add(*fault)
            elif rows:
                yield [row[0] for row in rows], [row[-1] for row in rows]
            rows, fault = [], None
        elif not _is_comment(line, columns, width):
            width = width or len(columns)
            rows.append(columns)
            fault = fault or _fault(columns, width, f"{path.name} line {number}")


def _with_blank_end(path: Path) -> Iterator[str]:
    yield from read_lines(path)
    yield ""


def _columns(line: str) -> list[str]:
    # Not str.split(): a word may contain a no-break or an ideographic space.
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def _is_comment(line: str, columns: list[str], width: int) -> bool:
    """Whether a line that begins with # is a comment; `# O` is a tagged word."""
    if not line.startswith("#") or "\t" in line:
        return False
    return len(columns) != (width or len(columns)) or TAG.fullmatch(columns[-1]) is None


def _fault(columns: list[str], width: int, where: str) -> tuple[str, str] | None:
    """Why a word, and with it its sentence, cannot be used: (reason, where), or None."""
    if len(columns) == 1:
        return "with a word without a tag", where
    if len(columns) != width:
        return f"with a number of columns other than {width}", where
    if any(has_control(column) for column in columns):
        return "with control characters", where
    if any(len(column) > LONGEST_TEXT for column in columns):
        return f"with a word of more than {LONGEST_TEXT:,} characters", where
    return None
