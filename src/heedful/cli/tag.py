"""`heedful tag`: a tag for every word."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful tag runs/tagging "Sonntag, 15. November 2026"`

`heedful tag runs/ner --input sentences.txt --json`
"""


def tag(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/tagging.")],
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without them, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a sentence a line (plain or gzip).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a sentence.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Tag the words of sentences: CoNLL columns out, a blank line after each sentence."""
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    tagger = load_pipeline(model, pick_device(device), "tag", ("tagging",))
    for group in groups_of_lines(text, input):
        for line, words in zip(group, tagger.tag(group), strict=True):
            if as_json:
                tagged = [{"word": word, "tag": found} for word, found in words]
                print(json.dumps({"text": line, "words": tagged}, ensure_ascii=False))
            else:
                print("".join(f"{word}\t{found}\n" for word, found in words))
        sys.stdout.flush()
