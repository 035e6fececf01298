"""`report.html`: one self-contained page about a run: curves, scores, samples, attention."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from heedful.evaluation.score_names import SHOWN, shown_scores
from heedful.explain.curves import Chart, line_chart
from heedful.explain.maps import LONGEST, AttentionMap, attention_maps, drawable
from heedful.pipelines.pipeline import Pipeline
from heedful.recipes import load_recipe
from heedful.runtime.files import write_text
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import duration


def write_report(run: Path, results: dict[str, Any], pipeline: Pipeline[Any], examples: Sequence[Any], unit: str) -> Path:
    """Write the report of a run and return its path. The attention is that of one of the examples."""
    recipe = load_recipe(str(run / "recipe.toml"))
    metric = recipe.training.metric
    split = "test" if "test" in results["best"] else "validation"
    scores = results["best"][split]
    rows = [
        (name, data, main_score_first(found, metric))
        for name in ("best", "final")
        for data, found in results.get(name, {}).items()
    ]
    score_names = list(dict.fromkeys(label for _, _, found in rows for label in found))
    facts = {
        **main_score_first(scores, metric),
        "parameters": f"{sum(p.numel() for p in pipeline.model.parameters()):,}",
        "steps": f"{results['steps']:,}",
        "training time": duration(results["seconds"]),
    }
    signatures = [f"{SHOWN[key][0]} {scores[f'{key}_signature']}" for key in ("bleu", "chrf") if f"{key}_signature" in scores]
    page = _environment().get_template("report.template.html").render(
        name=run.resolve().name,
        recipe=recipe,
        unfinished=results.get("unfinished", ""),
        facts=facts,
        split=split,
        signatures=" · ".join(signatures),
        charts=learning_curves(read_metrics(run / "metrics.jsonl"), metric, unit),
        metric=SHOWN[metric][0],
        scored=_sentence(results.get("scored", "")),
        score_names=score_names,
        score_rows=[(name, data, *(found.get(label, "–") for label in score_names)) for name, data, found in rows],
        samples=[{"image": "", **sample} for sample in results["samples"]],
        maps=drawable(typical_maps(pipeline, examples)),
        attention_css=_own_file("attention.css"),
        attention_js=_own_file("attention.js"),
    )  # fmt: skip
    path = run / "report.html"
    write_text(path, page)
    return path


def main_score_first(scores: dict[str, Any], metric: str) -> dict[str, str]:
    """Name → value as people read them, and before all others the score that the best checkpoint was chosen by."""
    first = {metric: scores[metric]} if metric in scores else {}
    return {**shown_scores(first), **shown_scores(scores)}


def learning_curves(entries: Sequence[dict[str, Any]], metric: str, unit: str) -> list[Chart]:
    """Loss, scores and speed over the steps of a run, from the entries of its `metrics.jsonl`."""
    train = [entry for entry in entries if entry["kind"] == "train"]
    valid = [entry for entry in entries if entry["kind"] == "valid"]
    out_of_100 = [key for key, (_, pattern) in SHOWN.items() if pattern.startswith("{:.2f}")]
    out_of_100.sort(key=lambda key: key != metric)
    charts = [
        line_chart(f"Loss per {unit.removesuffix('s')}", {
            "training": [(e["step"], e.get("nll")) for e in train],
            "validation": [(e["step"], e.get("loss")) for e in valid],
        }),
        line_chart("Scores on the validation set", {
            SHOWN[key][0]: [(e["step"], e.get(key)) for e in valid] for key in out_of_100
        }),
        line_chart(f"Speed in {unit} per second", {"": [(e["step"], e.get("tokens_per_second")) for e in train]}),
    ]  # fmt: skip
    return [chart for chart in charts if chart is not None]


def typical_maps(pipeline: Pipeline[Any], examples: Sequence[Any]) -> dict[str, AttentionMap]:
    """The attention of an example of middle length: long enough to show something, short enough to be read and drawn."""
    found = sorted((attention_maps(pipeline, example) for example in examples), key=_widest)
    fitting = [maps for maps in found if _widest(maps) <= LONGEST] or found[:1]
    return fitting[len(fitting) // 2] if fitting else {}


def _widest(maps: dict[str, AttentionMap]) -> int:
    return max((max(len(one.rows), len(one.columns)) for one in maps.values()), default=0)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _environment() -> Environment:
    """Templates of this package; every value they are given is escaped."""
    environment = Environment(
        loader=PackageLoader("heedful", "explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment


def _own_file(name: str) -> Markup:
    """A file of this package, to stand in a page as it is."""
    return Markup(resources.files("heedful.explain").joinpath(name).read_text(encoding="utf-8"))
