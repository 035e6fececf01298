"""`heedful complexity`: what layers cost and how far information travels through them, measured on this machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.errors import HeedfulError, Stopped, UsageError, did_you_mean

if TYPE_CHECKING:
    from heedful.complexity.survey import LayerReport, SurveySettings

EXAMPLES = """Examples:

`heedful complexity`

`heedful complexity --layers full,window,gru --lengths 512,1024,2048,4096 --png complexity.png`

`heedful complexity --html complexity.html --csv complexity.csv`
"""
PIPE_WIDTH = 200  # columns of a table that is not printed to a terminal


def complexity(
    layers: Annotated[str, typer.Option(help="Layers to measure, separated by commas [default: all].")] = "",
    lengths: Annotated[str, typer.Option(help="Sequence lengths L, separated by commas.")] = "512,1024,2048,4096,8192",
    width: Annotated[int, typer.Option(help="Width D of the measurements over lengths.")] = 64,
    widths: Annotated[str, typer.Option(help="Widths D, separated by commas.")] = "64,128,256,512",
    length: Annotated[int, typer.Option(help="Length L of the measurements over widths.")] = 2048,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    window: Annotated[int, typer.Option(help="Window r of restricted attention: positions on either side.")] = 128,
    kernel: Annotated[int, typer.Option(help="Kernel k of a convolution, in positions.")] = 3,
    path_lengths: Annotated[str, typer.Option(help="Lengths at which paths are traced, separated by commas.")] = "16,32,64,128",
    path_window: Annotated[int, typer.Option(help="Window r where paths are traced.")] = 8,
    rounds: Annotated[int, typer.Option(help="Rounds of each measurement; the fastest counts.")] = 3,
    seconds: Annotated[float, typer.Option(help="Leave out measurements that would take longer than this.")] = 60.0,
    png: Annotated[Path | None, typer.Option(help="Write the curves as a picture.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write every measurement as a line of a CSV file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write tables and curves as a page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Measure the paper's Table 1 on real layers: time and memory, sequential steps, and the longest path between positions.

    Time and peak memory are those of a forward and a backward pass of one layer on the CPU, each in a process of its own.
    Measurements that would not fit into memory are left out.
    """
    from heedful.cli import console
    from heedful.complexity import table
    from heedful.complexity.layers import LAYERS, LayerShape, small_attention
    from heedful.complexity.picture import drawn, load_matplotlib, page
    from heedful.complexity.survey import SurveySettings, survey
    from heedful.nn.attention.kinds import AttentionSettings
    from heedful.runtime.files import write_text

    plan = SurveySettings(
        names("--layers", layers, LAYERS),
        numbers("--lengths", lengths),
        numbers("--widths", widths),
        LayerShape(width, heads, kernel, AttentionSettings(window=window)),
        length,
        numbers("--path-lengths", path_lengths),
        LayerShape(2 * heads, heads, kernel, small_attention(path_window)),
        rounds,
        seconds,
    )
    for path in filter(None, (png, csv, html)):
        if not path.absolute().parent.is_dir():
            raise HeedfulError(f"there is no directory {path.parent} to write {path.name} into")
    if png or html:
        load_matplotlib()  # fail now if it is missing, not after the measurements
    parts = len(plan.layers) * (len(plan.points) + len(plan.path_lengths))
    console.note(f"{parts:,} measurements; Ctrl-C stops and shows the results so far")
    screen = console.screen(error=True)
    tick = screen.track("measuring", parts)
    found: list[LayerReport] = []
    stopped = False
    try:
        survey(plan, lambda: tick(1), found)
    except KeyboardInterrupt:
        stopped = True
    finally:
        screen.close()
    if as_json:
        print(json.dumps(table.as_json(plan, found), ensure_ascii=False))
    else:
        show(plan, found)
    if csv:
        write_text(csv, table.as_csv(found))
    if png:
        png.write_bytes(drawn(plan, found, "png"))
    if html:
        write_text(html, page(plan, found))
    if stopped:
        raise Stopped("stopped by Ctrl-C: these are the results so far", signal.SIGINT)


def show(plan: SurveySettings, found: Sequence[LayerReport]) -> None:
    """Print the tables."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Column, Table

    from heedful.complexity import table

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, width=PIPE_WIDTH)
    for title, (head, rows) in table.tables(plan, found).items():
        shown = Table(
            head[0], *(Column(name, justify="right") for name in head[1:]), box=SIMPLE, title=title, title_justify="left"
        )
        for row in rows:
            shown.add_row(*row)
        console.print(shown)
    for line in table.skipped_lines(found):
        console.print(line, markup=False)


def names(option: str, given: str, known: Iterable[str]) -> list[str]:
    """Names separated by commas, each one of those known; all of them if none is given."""
    found = [name.strip() for name in given.split(",") if name.strip()]
    for name in found:
        if name not in known:
            raise UsageError(f"{option}: there is no layer '{name}'{did_you_mean(name, known)}")
    return list(dict.fromkeys(found)) or list(known)


def numbers(option: str, given: str) -> list[int]:
    """Whole numbers separated by commas, in ascending order."""
    try:
        found = sorted({int(number) for number in given.split(",")})
    except ValueError as error:
        raise UsageError(f"{option} must be whole numbers separated by commas, such as 512,1024, not '{given}'") from error
    return found
