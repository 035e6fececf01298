"""`heedful train`: train a recipe in a run directory."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.errors import HeedfulError, UsageError

if TYPE_CHECKING:
    from heedful.evaluation.score_names import RunResults

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
EXAMPLES = """Examples:

`heedful train dates`

`heedful train translation data.source=train.en data.target=train.de --run runs/en-de`

`heedful train translation data.source=pairs.tsv --time 30m --dry-run`

`heedful train translation data.source=train.en data.target=train.de data.monolingual_target=more.de --both`

`heedful train translation data.source=pairs.tsv model.preset=base training.steps=50000`
"""


def train(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see `heedful recipes`) or a TOML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[section.key=value]...", help="Values to use instead of the recipe's.")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="The run directory [default: runs/RECIPE].")] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For `translation`: finish within this time, such as 30m or 2h [default: train until it no longer helps].",
        ),
    ] = None,
    both: Annotated[
        bool, typer.Option("--both", help="For `translation`: also train the other direction, in the run's directory `reverse`.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Report what would be trained, how long it would take and what it would need; train nothing."
        ),
    ] = False,
) -> None:
    """Train a model, or continue where an earlier run of the same command stopped."""
    from heedful.cli import console
    from heedful.recipes import load_recipe
    from heedful.recipes.recipe import preset_training
    from heedful.runtime.processes import leave, torchrun_place
    from heedful.training.dry_run import dry_run as only_plan
    from heedful.training.run import read_results
    from heedful.training.run import train as train_recipe

    seconds = None if time is None else seconds_of(time)
    settled = load_recipe(recipe, [*(_absolute(override) for override in overrides or ()), *(["data.both=true"] if both else [])])
    folder = run or Path("runs") / settled.name
    brought = preset_training(overrides or (), settled)
    if brought:
        values = " ".join(f"{key}={value}" for key, value in brought.items())
        console.note(f"model.preset={settled.model['preset']} also sets {values}; give any of them to change it")
    if dry_run:
        only_plan(settled, folder, console.screen(), seconds)
        return
    try:
        results = train_recipe(settled, folder, console.screen(), seconds)
    except KeyboardInterrupt as error:
        raise HeedfulError("interrupted before it could save; run the same command again to continue") from error
    if (torchrun_place() or (0, 1))[0] != 0:
        leave(0)  # only the first process prints results
    if getattr(settled.data, "both", False):
        show_results(folder / "reverse", read_results(folder / "reverse"))
    show_results(folder, results)


def seconds_of(text: str) -> float:
    """A duration such as `30m`, `2h`, `1h30m` or `90s` in seconds.

    >>> seconds_of("30m"), seconds_of("1.5h"), seconds_of("1h30m")
    (1800.0, 5400.0, 5400.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(d|h|m|s)", spoken := text.strip().lower().replace("min", "m"))
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if not seconds or re.sub(r"\d+(?:\.\d+)? ?[dhms]\s*", "", spoken):
        raise UsageError(f"--time must be a time such as 30m, 2h or 1h30m, not '{text}'")
    return seconds


def show_results(run: Path, results: RunResults) -> None:
    """Print the scores of a run, and where its files are."""
    from heedful.cli.console import say
    from heedful.evaluation.score_names import one_line
    from heedful.jobs.registry import JOBS
    from heedful.recipes import load_recipe

    recipe = load_recipe(str(run / "recipe.toml"))
    for name, splits in (("best", results["best"]), ("final", results["final"])):
        for split, scores in splits.items():
            say(f"{name:5} {split:10}  {one_line(scores)}")
    if results.get("scored"):
        say(results["scored"])
    if results.get("unfinished"):
        say(f"\n{results['unfinished']}; the same `heedful train` command continues from there")
    say(f"\nmodels   {run / 'best'}  {run / 'final'}")
    say(f"report   {run / 'report.html'}")
    kept = sum(path.stat().st_size for path in (run / "checkpoints").glob("*"))
    if kept and not results.get("unfinished"):
        say(f"disk     {run / 'checkpoints'} takes {kept / 1e6:,.0f} MB and is no longer needed; you may delete it")
    program = sys.argv[0] if Path(sys.argv[0]).stem == "heedful" else "heedful"
    say(f"next     {program} {JOBS[recipe.task].example.replace('DIRECTORY', shlex.quote(str(run / 'best')))}")


def _absolute(override: str) -> str:
    """File names as absolute paths, so that the run can be continued from any directory."""
    key, _, value = override.partition("=")
    files = ("data.train", "data.valid", "data.test", "tokenizer.file", "model.pretrained")  # and data.*source, data.*target
    if not value or not (key in files or (key.startswith("data.") and key.endswith(("source", "target")))):
        return override
    names = value.split(",") if key in files[:3] else [value]  # several text files may be given
    return f"{key}={','.join(str(Path(name.strip()).expanduser().absolute()) for name in names)}"
