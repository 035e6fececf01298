"""`heedful check`: what is wrong with a parallel text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful check train.en train.de`

`heedful check train.en train.de --test test.en --clean cleaned`

`heedful check pairs.tsv --json`
"""


def check(
    source: Annotated[Path, typer.Argument(help="The text to translate; or alone: a TSV or JSONL of pairs.")],
    target: Annotated[Path | None, typer.Argument(help="Its translation, line by line.")] = None,
    test: Annotated[
        list[Path] | None, typer.Option(help="Sources of validation or test, which must not be trained on; may be repeated.")
    ] = None,
    clean: Annotated[
        Path | None, typer.Option(help="A folder for what is kept; what is not is in left_out.tsv beside it, with the reason.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look at a parallel text before training: misaligned stretches, duplicates, copies, wrong languages and encodings."""
    from heedful.cli import console
    from heedful.data.alignment import SHORTEST
    from heedful.data.check import check as check_files
    from heedful.data.check import clean as clean_files
    from heedful.data.lines import read_lines
    from heedful.data.parallel import ParallelFiles

    files = ParallelFiles(source, target)
    screen = console.screen()
    tick = screen.track("checking", None)
    try:
        report, judge = check_files(files, (line for path in test or () for line in read_lines(path)), tick)
    finally:
        screen.close()
    if as_json:
        print(report.as_json())
    else:
        for line in report.lines():
            console.say(line)
        few = f"; with fewer than {SHORTEST}, whether they belong together was not looked at" if report.pairs < SHORTEST else ""
        read = f"{report.pairs:,} pair{'s' * (report.pairs != 1)} read"
        console.say(f"{read}: {'see above' if report.findings else 'nothing suspicious found'}{few}")
    if clean is not None:
        kept, left = clean_files(files, report, judge, clean)
        console.note(f"{kept:,} pairs kept in {clean}, {left:,} left out: {clean / 'left_out.tsv'}")
