"""Runs side by side: the settings that differ, the scores, and the learning curves over each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from heedful.errors import HeedfulError
from heedful.evaluation.score_names import LOWER_IS_BETTER, SHOWN, RunResults, Scores, shown_scores
from heedful.explain.figures import LINES, new_figure
from heedful.explain.learning_curves import Chart, line_chart
from heedful.explain.tables import Cell, TableView, table_page
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.files import os_error_sentence, read_json
from heedful.runtime.run_log import Entry, read_metrics
from heedful.runtime.screen import duration
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE = "–"
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Run:
    """The contents of a run directory."""

    name: str
    path: Path
    recipe: Recipe
    entries: Sequence[Entry]  # of its metrics.jsonl
    results: RunResults | None  # None until it is finished

    @property
    def state(self) -> str:
        """How far training got."""
        steps = max((entry["step"] for entry in self.entries if isinstance(entry["step"], int)), default=0)
        if self.results is None:
            return f"at step {steps:,} of {self.recipe.training.steps:,}, no final scores"
        return self.results.get("unfinished", "") or f"finished after {self.results['steps']:,} steps"

    @property
    def scores(self) -> Scores:
        """The best model's scores on the test set, or else on the validation set; for an unfinished run, those of its best
        validation."""
        if self.results is not None:
            best = self.results["best"]
            return best.get("test", best.get("validation", {}))
        metric, sign = self.recipe.training.metric, -1.0 if self.recipe.training.metric in LOWER_IS_BETTER else 1.0
        valid = [entry for entry in self.entries if entry["kind"] == "valid" and _number(entry.get(metric)) is not None]
        return max(valid, key=lambda entry: sign * entry[metric], default={})

    @property
    def scored_on(self) -> str:
        """What the scores are of."""
        if self.results is not None:
            return "test" if "test" in self.results["best"] else "validation"
        return "validation, while training" if self.scores else NONE

    @property
    def seconds(self) -> float:
        """How long it was trained."""
        return self.results["seconds"] if self.results else max([0.0, *(value for _, value in self.curve("train", "seconds"))])

    def curve(self, kind: str, key: str) -> Points:
        """A value over the steps."""
        found = [(entry["step"], _number(entry.get(key))) for entry in self.entries if entry["kind"] == kind]
        return [(float(step), value) for step, value in found if value is not None]


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(cast(float, value)) if fits else None


def read_run(folder: Path) -> Run:
    """A run directory; an error that says what is missing or broken."""
    try:
        if not folder.is_dir():
            raise HeedfulError(f"there is no run directory {folder}")
        if not (folder / "recipe.toml").is_file():
            inside = (folder.parent / "recipe.toml").is_file() and (folder / "config.json").is_file()
            hint = f"; it is a model of the run {folder.parent}" if inside else ", which every run has"
            raise HeedfulError(f"{folder} is not a run: it has no recipe.toml{hint}")
        recipe = load_recipe(str(folder / "recipe.toml"))
        entries = [entry for entry in read_metrics(folder / "metrics.jsonl") if _is_entry(entry)]
        results = _results(folder / "results.json")
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    return Run(folder.resolve().name, folder, recipe, entries, results)


def _is_entry(entry: Entry) -> bool:
    return isinstance(entry.get("kind"), str) and _number(entry.get("step")) is not None


def _results(path: Path) -> RunResults | None:
    if not path.is_file():
        return None
    found = read_json(path)
    best = found.get("best") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(best, dict) or not isinstance(found.get("steps"), int):
        raise HeedfulError(f"{path} does not hold the results of a run; `heedful finish {path.parent}` writes them again")
    return cast(RunResults, found)


@dataclass(frozen=True)
class Comparison:
    """Some runs side by side."""

    runs: Sequence[Run]

    @property
    def names(self) -> list[str]:
        """A name for each run: its directory's, or its path if two directories have the same name."""
        short = [run.name for run in self.runs]
        return [name if short.count(name) == 1 else str(run.path) for name, run in zip(short, self.runs, strict=True)]

    def settings(self) -> dict[str, list[str]]:
        """The settings that differ: name → its value in each run."""
        each = [{"task": run.recipe.task, **run.recipe.flat()} for run in self.runs]
        names = dict.fromkeys(name for one in each for name in one)
        rows = {name: [_shown(one[name]) if name in one else NONE for one in each] for name in names}
        return {name: row for name, row in rows.items() if len(set(row)) > 1}

    def scores(self) -> dict[str, list[str]]:
        """What the runs scored, and how long they took: name → text for each run."""
        shown = [shown_scores(run.scores) for run in self.runs]
        order = [label for label, _ in SHOWN.values()]
        names = sorted({name for one in shown for name in one}, key=order.index)
        rows = {"state": [run.state for run in self.runs], "scored on": [run.scored_on for run in self.runs]}
        rows |= {name: [one.get(name, NONE) for one in shown] for name in names}
        rows["training time"] = [duration(run.seconds) if run.seconds else NONE for run in self.runs]
        return rows

    def curves(self) -> dict[str, dict[str, Points]]:
        """Loss, scores and speed over the steps: title → name of the run → points. What no run has is left out."""
        shown = [key for key, (_, pattern) in SHOWN.items() if pattern.startswith("{:.2f}")]
        wanted = [("train", "nll", "Training loss"), ("valid", "loss", "Validation loss")]
        wanted += [("valid", key, f"{SHOWN[key][0]} on the validation set") for key in shown]
        wanted += [("train", "tokens_per_second", "Speed in units per second"), ("train", "learning_rate", "Learning rate")]
        found = {
            title: {name: points for name, run in zip(self.names, self.runs, strict=True) if (points := run.curve(kind, key))}
            for kind, key, title in wanted
        }
        return {title: curves for title, curves in found.items() if curves}

    def tables(self) -> list[TableView]:
        """Scores and settings as tables, a column per run."""
        settings = self.settings()
        about = "" if settings or len(self.runs) == 1 else "All settings are equal."
        views = [("Scores", "Of the best model of each run.", self.scores()), ("Settings that differ", about, settings)]
        return [
            TableView(title, text, ["", *self.names], [[Cell(name), *map(Cell, row)] for name, row in rows.items()])
            for title, text, rows in views
            if rows or text
        ]

    def charts(self) -> list[Chart]:
        """The curves for a page. Every run keeps its place among the lines, and so its colour."""
        charts = (
            line_chart(title, {name: curves.get(name, []) for name in self.names}, keep_empty=True)
            for title, curves in self.curves().items()
        )
        return [chart for chart in charts if chart is not None]

    def to_html(self) -> str:
        """A page that needs no network."""
        title = self.names[0] if len(self.runs) == 1 else f"{len(self.runs)} runs compared"
        return table_page(title, " · ".join(self.names), self.tables(), charts=self.charts())

    def _repr_html_(self) -> str:
        from heedful.explain.page import in_notebook

        return in_notebook(self.to_html())

    def plot(self) -> Figure:
        """The curves of all runs over each other."""
        found = self.curves()
        if not found:
            raise HeedfulError("there are no curves: these runs have recorded no finite number yet")
        across = min(3, len(found))
        down = -(-len(found) // across)
        figure = new_figure(4.2 * across, 3.0 * down)
        panels = figure.subplots(down, across, squeeze=False).flatten()
        colours = {name: LINES[number % len(LINES)] for number, name in enumerate(self.names)}
        for axes, (title, curves) in zip(panels, found.items(), strict=False):
            for name, points in curves.items():
                marker = "o" if len(points) <= 12 else ""
                axes.plot(*zip(*points, strict=True), color=colours[name], linewidth=1.4, marker=marker, markersize=3, label=name)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("step", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(color="#e3e5ec")
            axes.spines[["top", "right"]].set_visible(False)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        if len(self.runs) > 1:
            from matplotlib.lines import Line2D

            handles = [Line2D([], [], color=colour) for colour in colours.values()]
            figure.legend(handles, list(colours), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
        return figure

    def as_json(self) -> JsonObject:
        """For files."""
        runs = [
            {"name": name, "path": str(run.path), "task": run.recipe.task, "state": run.state, "scored_on": run.scored_on,
             "scores": {key: run.scores[key] for key in SHOWN if key in run.scores}, "settings": run.recipe.flat()}
            for name, run in zip(self.names, self.runs, strict=True)
        ]  # fmt: skip
        return {"format": 1, "runs": runs, "differences": self.settings(), "curves": self.curves()}


def _shown(value: object) -> str:
    """A setting as a recipe writes it; empty and none count as not set."""
    if value is None or value == "":
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare(*runs: str | Path) -> Comparison:
    """Some run directories side by side; a single one for its curves."""
    return Comparison([read_run(Path(run)) for run in runs])
