"""`heedful summarize`: a document in, its summary out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful summarize runs/summarization "A long text. It goes on. And on."`

`heedful summarize runs/summarization --input documents.txt     # a document a line`

`heedful summarize runs/summarization --input report.txt --whole`
"""


def summarize(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/summarization.")],
    text: Annotated[list[str] | None, typer.Argument(help="Documents; without them, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a document a line (plain or gzip).")] = None,
    whole: Annotated[bool, typer.Option(help="All lines of the input are one document.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy [default: the model's].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a document.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Summarize documents: arguments, a file, or standard input."""
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    summarizer = load_pipeline(model, pick_device(device), "summarize", ("summarization",))
    groups = groups_of_lines(text, input)
    if whole:
        groups = iter([["\n".join(line for group in groups for line in group)]])
    for group in groups:
        for document, summary in zip(group, summarizer.translate(group, beam), strict=True):
            line = summary.replace("\n", " ")
            print(json.dumps({"document": document, "summary": line}, ensure_ascii=False) if as_json else line)
        sys.stdout.flush()
