"""The command line: one file a verb, and one place where errors become sentences and exit codes."""

from __future__ import annotations

import io
import sys

import typer

from heedful import __version__
from heedful.cli import (
    answer,
    classify,
    embed,
    evaluate,
    export,
    fill,
    generate,
    import_,
    info,
    recipes,
    summarize,
    tag,
    train,
    translate,
)
from heedful.errors import HeedfulError, UsageError

app = typer.Typer(
    help="The Transformer as software people can use: train a model, use it, score it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
VERBS = {
    "train": train, "translate": translate, "summarize": summarize, "generate": generate, "fill": fill, "embed": embed,
    "classify": classify, "tag": tag, "answer": answer, "evaluate": evaluate, "recipes": recipes, "info": info,
    "import": import_, "export": export,
}  # fmt: skip
for name, module in VERBS.items():
    app.command(name, epilog=module.EXAMPLES)(getattr(module, module.__name__.rsplit(".", 1)[-1]))


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"heedful {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=show_version, is_eager=True),
) -> None:
    """Options of every verb."""


def main() -> None:
    """Run the command line: exit code 0 when done, 1 when it failed, 2 when it was asked for something impossible."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as all that is read is, whatever the locale
    try:
        app(args=arguments, prog_name="heedful")
    except HeedfulError as error:
        if debug:
            raise
        fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except Exception as error:
        if debug:
            raise
        fail(f"unexpected {type(error).__name__}: {error} (--debug shows where)", 1)


def fail(message: str, code: int) -> None:
    """One sentence on standard error, and out."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
