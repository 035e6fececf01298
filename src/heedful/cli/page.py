"""`heedful page`: models in one HTML file that runs them in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful page runs/dates dates.html`

`heedful page runs/dates dates.html --int8     # half the size`

`heedful page transformer=runs/en-de recurrent=runs/en-de-rnn both.html     # side by side`
"""
LARGE = 25_000_000  # bytes; most mail servers accept attachments up to this size

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL... OUT.html", help="Model directories or runs, NAME=DIRECTORY to name one; then the file to write."
    ),
]


def page(
    models: Models,
    int8: Annotated[bool, typer.Option("--int8", help="Weights in 8 bits: half the size, nearly the same outputs.")] = False,
    checkpoints: Annotated[
        int,
        typer.Option(
            help="How many earlier weights of each run to include, to show how the model developed (see training.history)."
        ),
    ] = 0,
    samples: Annotated[
        Path | None,
        typer.Option(help="Inputs to offer: a file with one per line (question, tab, passage), or a folder of images."),
    ] = None,
) -> None:
    """Write one HTML file with models inside: it translates, classifies, … in the browser, shows everything that happens
    inside, and needs no server and no network."""
    from heedful.cli import console
    from heedful.cli.serve import named_models
    from heedful.errors import HeedfulError, UsageError
    from heedful.page.model_file import pack_model
    from heedful.page.samples import samples_of_file, samples_of_run
    from heedful.page.standalone import standalone_page
    from heedful.pipelines import load_pipeline
    from heedful.pipelines.model_directory import find_directory
    from heedful.runtime.files import os_error_sentence, write_text
    from heedful.training.weight_history import earlier_weights

    *given, last = models
    out = Path(last)
    if not given or out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"the last argument is the file to write and must end in .html, such as {out.name or 'model'}.html")
    if out.is_dir():
        raise UsageError(f"{out} is a directory, not a file to write")
    if not out.resolve().parent.is_dir():
        raise UsageError(f"there is no directory {out.parent} to write {out.name} into")
    if checkpoints < 0:
        raise UsageError(f"--checkpoints must be at least 0, not {checkpoints}")
    packed = []
    for name, folder in named_models(given).items():
        model = find_directory(folder)
        pipeline = load_pipeline(model)
        offered = samples_of_file(samples, pipeline.task) if samples else samples_of_run(model, pipeline.task)
        earlier = earlier_weights(model, pipeline.model, checkpoints) if checkpoints else []
        packed.append(pack_model(pipeline, name, 8 if int8 else 16, offered, earlier))
        console.say(f"{name}: {_facts(pipeline.model, int8, len(earlier))}")
    text = standalone_page(packed)
    try:
        write_text(out, text)
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    size = len(text.encode())
    hint = "" if size <= LARGE else "; too large for most e-mail" + ("" if int8 else ": --int8 makes it half as large")
    typer.echo(f"{out} ({size / 1e6:.1f} MB{hint})")


def _facts(model: object, int8: bool, earlier: int) -> str:
    """What was included for a model."""
    from torch import nn

    assert isinstance(model, nn.Module)
    count = sum(parameter.numel() for parameter in model.parameters())
    more = f", and earlier ones of {earlier} steps" if earlier else ""
    return f"{count:,} weights in {8 if int8 else 16} bits{more}"
