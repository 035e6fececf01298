"""`heedful translate`: lines in, lines out, in order, as they come."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from heedful.cli.lines import groups_of_lines

EXAMPLES = """Examples:

`heedful translate runs/dates/best "15. November 2026"`

`heedful translate runs/en-de/best --input test.en > test.out`

`cat test.en | heedful translate runs/en-de/best --beam 5 --n-best 3 --json`
"""


def translate(
    model: Annotated[Path, typer.Argument(help="A model directory, such as runs/dates/best.")],
    text: Annotated[list[str] | None, typer.Argument(help="Text to translate; without it, lines are read from stdin.")] = None,
    input: Annotated[Path | None, typer.Option(help="A file to translate, line by line (plain or gzip).")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy [default: the model's].")] = None,
    length_penalty: Annotated[float | None, typer.Option(min=0.0, help="The α of beam search [default: the model's].")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each line, best first.")] = 1,
    sample: Annotated[bool, typer.Option(help="Draw instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(min=1e-3, help="Of sampling: below 1 bolder, above 1 more varied.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Of sampling: only the k likeliest tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(min=1e-6, max=1.0, help="Of sampling: only the likeliest that make up p.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with scores.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Translate text, a file, or standard input; empty lines stay empty."""
    import torch

    from heedful.pipelines import load_pipeline
    from heedful.training.device import pick_device

    translator = load_pipeline(model, pick_device(device), "translate", ("translation",))
    sampling: dict[str, Any] | None = None
    if sample:
        generator = torch.Generator(translator.device).manual_seed(seed)
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    for group in groups_of_lines(text, input):
        found = translator.search(group, beam, n_best, length_penalty, sampling)
        for line, hypotheses in zip(group, found, strict=True):
            written = [translator.target_tokenizer.decode(h.tokens).replace("\n", " ") for h in hypotheses]
            if as_json:
                scored = [
                    {"text": t, "score": h.score, "log_probability": h.log_probability}
                    for t, h in zip(written, hypotheses, strict=True)
                ]
                print(json.dumps({"source": line, "translations": scored}, ensure_ascii=False))
            else:
                print("\n".join(written + [""] * (n_best - len(written))))  # always n lines, so that they can be told apart
        sys.stdout.flush()
