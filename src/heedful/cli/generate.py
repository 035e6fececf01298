"""`heedful generate`: text that goes on from a prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful generate runs/language-model "The import statement"`

`heedful generate runs/language-model "" --length 500 --temperature 0.8 --top-k 40 --seed 7`

`heedful generate runs/language-model "A class is" --beam 4`
"""


def generate(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/language-model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Prompts; without them, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file with a prompt a line (plain or gzip).")] = None,
    length: Annotated[int, typer.Option(min=1, help="Tokens to write at most.")] = 200,
    count: Annotated[int, typer.Option(min=1, help="How many different texts for each prompt.")] = 1,
    beam: Annotated[int, typer.Option(min=0, help="Search with a beam of this width instead of drawing; 1 is greedy.")] = 0,
    temperature: Annotated[float, typer.Option(min=1e-3, help="Below 1 bolder, above 1 more varied.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Only the k likeliest tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(min=1e-6, max=1.0, help="Only the likeliest that make up p.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Another seed, another text.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Write on from prompts: arguments, a file, or standard input. An empty prompt begins a new document."""
    from heedful.errors import UsageError
    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    if beam and count > 1:
        raise UsageError("a search always finds the same text; --count needs drawing, without --beam")
    writer = load_pipeline(model, pick_device(device), "generate", ("language-model",))
    for group in groups_of_lines(text, input):
        prompts = [prompt for prompt in group for _ in range(count)]
        written = writer.generate(prompts, length, beam, temperature, top_k, top_p, seed)
        for number, (prompt, more) in enumerate(zip(prompts, written, strict=True)):
            if as_json:
                print(json.dumps({"prompt": prompt, "text": more}, ensure_ascii=False))
            else:
                print(("\n" if number else "") + prompt + more)
        sys.stdout.flush()
