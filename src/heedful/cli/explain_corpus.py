"""The parts of `heedful explain` that read a whole file: what every head does on average, and word alignments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from heedful.cli import console
from heedful.cli.explain_output import Output
from heedful.errors import HeedfulError, InputError, UsageError
from heedful.explain.alignment import (
    When,
    align,
    alignments_json,
    error_rate,
    error_table,
    pharaoh,
    plot_error_rates,
    read_gold,
    read_pairs,
)
from heedful.explain.corpus import explain_lines
from heedful.explain.explanation import Explanation
from heedful.explain.heads import summarize_heads
from heedful.pipelines.pipeline import AnyPipeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 64  # lines of a file that are explained together


def show_heads(pipeline: AnyPipeline, path: Path, output: Output) -> None:
    """Every head over the lines of a file."""
    summary = summarize_heads(_explanations(pipeline, path))
    if not summary.texts:
        raise HeedfulError(f"{path} has no line that could be explained")
    if not summary.heads:
        raise UsageError("this model has no attention")
    output.write(summary)


def _explanations(pipeline: AnyPipeline, path: Path) -> Iterator[Explanation]:
    """The lines of a file explained; one that cannot be used is reported and left out."""
    from heedful.cli.lines import groups_of_lines
    from heedful.pipelines.image_classifier import ImageClassifier

    tick = console.screen().track("explaining", None)
    number = 0
    for lines in groups_of_lines(None, path, file_names=isinstance(pipeline, ImageClassifier)):
        for start in range(0, len(lines), LINES):
            group = lines[start : start + LINES]
            for found in explain_lines(pipeline, group):
                number += 1
                if isinstance(found, InputError):
                    console.say(f"warning: {path} line {number:,}: {found}", error=True)
                elif found is not None:
                    yield found
            tick(len(group))


def show_alignments(
    pipeline: AnyPipeline,
    path: Path,
    translation: Path | None,
    gold_path: Path | None,
    when: When,
    layer: str | None,
    head: int | None,
    output: Output,
) -> None:
    """The alignments of pairs; with gold alignments the error rates of every layer and head."""
    number = None if layer is None else int(layer) if layer.isdecimal() else _bad_layer(layer)
    pairs = read_pairs(path, translation)
    gold = read_gold(gold_path, len(pairs)) if gold_path else None
    alignments = align(pipeline, pairs, when)
    links = alignments.links(number, head)

    def figure() -> Figure:
        if gold is None:
            raise UsageError("a picture of alignment error rates needs --gold")
        return plot_error_rates(alignments.error_rates(gold), when)

    def show() -> None:
        if gold is None:
            for one in links:
                typer.echo(pharaoh(one))
            return
        from heedful.cli.table_screen import show_tables

        show_tables([error_table(alignments.error_rates(gold), when, len(pairs))])
        if layer is not None or head is not None:
            console.say(f"asked for: {error_rate(links, gold):.1%}")

    output.give(lambda: "", figure, lambda: alignments_json(alignments, links, gold), show)


def _bad_layer(layer: str) -> int:
    raise UsageError(f"words are aligned by one layer: --layer must be its number, not '{layer}'")
