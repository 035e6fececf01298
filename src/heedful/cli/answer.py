"""`heedful answer`: the span of a passage that answers a question."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful answer runs/question-answering "What is the currency of Japan?" --passage japan.txt`

`heedful answer runs/question-answering --input questions.jsonl --json     # {"question": …, "passage": …} a line`
"""


def answer(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/question-answering.")],
    text: Annotated[list[str] | None, typer.Argument(help="Questions; without them, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a question, or a JSON object, a line.")] = None,
    passage: Annotated[Path | None, typer.Option(help="A text file in which the answers are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a question.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Answer questions from a passage: of --passage, or of JSON lines with "question" and "passage"."""
    from heedful.data.lines import read_lines
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    answerer = load_pipeline(model, pick_device(device), "answer", ("question-answering",))
    known = "\n".join(read_lines(passage)) if passage else None
    for group in groups_of_lines(text, input):
        questions = list(_questions(group, known))
        for (question, _), (found, p) in zip(questions, answerer.answer(questions), strict=True):
            if as_json:
                print(json.dumps({"question": question, "answer": found, "probability": p}, ensure_ascii=False))
            else:
                print(found)
        sys.stdout.flush()


def _questions(lines: list[str], passage: str | None) -> Iterator[tuple[str, str]]:
    """Lines as (question, passage)."""
    from heedful.errors import HeedfulError, UsageError

    for line in lines:
        if passage is not None:
            yield line, passage
            continue
        try:
            row = json.loads(line)
            pair = (row["question"], row["passage"] if "passage" in row else row["context"])
        except (ValueError, TypeError, KeyError) as error:
            if not line.lstrip().startswith("{"):
                raise UsageError('give --passage FILE, or JSON lines of {"question": …, "passage": …}') from error
            raise HeedfulError(f'this line is not a JSON object with "question" and "passage": {line[:80]}') from error
        if not all(isinstance(part, str) for part in pair):
            raise HeedfulError(f'"question" and "passage" must be text in {line[:80]}')
        yield pair
