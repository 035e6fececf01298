"""The command line: one file per verb, and one place where errors become sentences and exit codes."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import NoReturn

import typer

from heedful import __version__
from heedful.cli import (
    answer,
    check,
    classify,
    compare,
    complexity,
    console,
    embed,
    evaluate,
    explain,
    export,
    fill,
    finish,
    generate,
    import_,
    info,
    page,
    recipes,
    serve,
    summarize,
    tag,
    train,
    translate,
)
from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.runtime.files import os_error_sentence

app = typer.Typer(
    help="The Transformer as software people can use: train a model, use it, score it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
VERBS = {
    "check": check, "train": train, "finish": finish, "translate": translate, "summarize": summarize,
    "generate": generate, "fill": fill,
    "embed": embed, "classify": classify, "tag": tag, "answer": answer, "evaluate": evaluate, "explain": explain,
    "compare": compare, "recipes": recipes, "info": info, "import": import_, "export": export, "page": page, "serve": serve,
    "complexity": complexity,
}  # fmt: skip
for name, module in VERBS.items():
    app.command(name, epilog=module.EXAMPLES)(getattr(module, module.__name__.rsplit(".", 1)[-1]))


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        typer.echo(f"heedful {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error; also after the verb."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Show results and errors only; also after the verb."),
    version: bool = typer.Option(False, "--version", help="Show the version.", callback=show_version, is_eager=True),
) -> None:
    """Options of every verb."""


def main() -> None:
    """Run the command line.

    Exit codes: 0 success (also when the reader of a pipe has closed it), 1 failure, 2 a wrong request, 128 + signal when
    stopped by a signal.
    """
    arguments, options = _without_options(sys.argv[1:])
    console.be_quiet(bool(options & {"--quiet", "-q"}))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # as for all input, whatever the locale
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        console.silence_standard_output()
        code = 0
    except Exception as error:
        if "--debug" in options:
            raise
        fail(*_explained(error))
    sys.exit(code)


def _run(arguments: list[str]) -> int | str | None:
    """Run a verb; returns the exit code. Typer itself exits with 1 when the reader of its output has closed the pipe."""
    output = sys.stdout
    try:
        app(args=arguments, prog_name="heedful")
    except SystemExit as end:
        if sys.stdout is not output:  # Typer has replaced it, because the pipe is closed
            sys.stdout = output
            raise BrokenPipeError from end
        return end.code
    return 0


def _without_options(arguments: list[str]) -> tuple[list[str], set[str]]:
    """The arguments without the options that are allowed anywhere before `--`, and those options."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    anywhere = {"--debug", "--quiet", "-q"}
    kept = [argument for argument in arguments[:end] if argument not in anywhere]
    return kept + arguments[end:], anywhere & set(arguments[:end])


def _explained(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if isinstance(error, Stopped):
        return str(error), 128 + error.signal
    if isinstance(error, HeedfulError):
        return f"error: {error}", 2 if isinstance(error, UsageError) else 1
    if isinstance(error, OSError):
        return f"error: {os_error_sentence(error)}", 1
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError":
        return "error: there is not enough memory for this; use a smaller model, batch, beam or input", 1
    if isinstance(error, RecursionError):
        return "error: a file is nested too deeply to be read", 1
    return f"error: unexpected {type(error).__name__}: {error} (--debug shows where)", 1


def fail(message: str, code: int) -> NoReturn:
    """Print one sentence to standard error and exit."""
    with suppress(OSError):  # standard error is closed
        console.say(message, error=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would flush it again on exit, and print a traceback
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
