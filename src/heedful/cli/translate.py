"""`heedful translate`: lines in, lines out, in order, as they come."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

LINES = 256  # translated together at most

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

    from heedful.data.corpus import open_text
    from heedful.decoding.translator import Translator
    from heedful.errors import UsageError
    from heedful.training.device import pick_device

    if text and input:
        raise UsageError("give text or --input, not both")
    translator = Translator.load(model, pick_device(device))
    sampling: dict[str, Any] | None = None
    if sample:
        generator = torch.Generator(translator.device).manual_seed(seed)
        sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    with ExitStack() as files:
        if text:
            lines = _decoded(map(os.fsencode, text), "argument")
        elif input and str(input) != "-":
            lines = _decoded(files.enter_context(open_text(input)), f"{input} line")
        else:
            if sys.stdin.isatty():
                print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
            # Not sys.stdin: its lock, held by the thread that reads, is wanted by Python when Ctrl-C ends it.
            lines = _decoded(files.enter_context(open(0, "rb", closefd=False)), "input line")
        for group in _as_they_come(lines):
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


def _decoded(lines: Iterable[bytes], what: str) -> Iterator[str]:
    """Lines as text; a byte that is not UTF-8 is replaced and told, so that no line is lost."""
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            print(f"warning: {what} {number} is not valid UTF-8", file=sys.stderr)
            yield line.decode("utf-8", "replace")


def _as_they_come(lines: Iterator[str]) -> Iterator[list[str]]:
    """Groups of whatever lines are there: one when they trickle, many when they pour."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(LINES)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again below, after what came before it
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    end: BaseException | bool = False
    while not end:
        group: list[str] = []
        entry = waiting.get()
        while True:
            if not isinstance(entry, str):
                end = entry or True
                break
            group.append(entry)
            if len(group) == LINES or waiting.empty():
                break
            entry = waiting.get()
        if group:
            yield group
    if isinstance(end, BaseException):
        raise end
