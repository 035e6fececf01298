"""`report.html`: one self-contained page about a run: curves, scores, samples, attention."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from heedful.data.monolingual import lines_translated
from heedful.errors import UsageError
from heedful.evaluation.score_names import SHOWN, RunResults, Scores, one_line, shown_scores
from heedful.explain.any_model import explain_example
from heedful.explain.attention_json import LONGEST, attention_json
from heedful.explain.explanation import Explanation
from heedful.explain.learning_curves import Chart, line_chart
from heedful.explain.templates import environment
from heedful.page.inline import inlined_modules, inlined_styles
from heedful.pipelines.pipeline import Example, ModelOutput, Pipeline
from heedful.recipes import load_recipe
from heedful.runtime.files import write_text
from heedful.runtime.run_log import Entry, read_metrics
from heedful.runtime.screen import duration


def write_report(
    run: Path, results: RunResults, pipeline: Pipeline[Example, ModelOutput], examples: Sequence[Example], unit: str
) -> Path:
    """Write the report of a run and return its path. It shows the attention for one of the examples."""
    recipe = load_recipe(str(run / "recipe.toml"))
    metric = recipe.training.metric
    split = "test" if "test" in results["best"] else "validation"
    scores = results["best"][split]
    rows = [
        (name, data, main_score_first(found, metric))
        for name, splits in (("best", results["best"]), ("final", results["final"]))
        for data, found in splits.items()
    ]
    score_names = list(dict.fromkeys(label for _, _, found in rows for label in found))
    facts = {
        **main_score_first(scores, metric),
        "parameters": f"{sum(p.numel() for p in pipeline.model.parameters()):,}",
        "steps": f"{results['steps']:,}",
        "training time": duration(results["seconds"]),
        **{f"model in {name}/": about for name, about in helpers_in(run).items()},
    }
    signatures = [f"{SHOWN[key][0]} {scores[f'{key}_signature']}" for key in ("bleu", "chrf") if f"{key}_signature" in scores]
    typical = typical_explanation(pipeline, examples)
    page = environment().get_template("report.template.html").render(
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
        explanation=attention_json(typical) if typical else None,
        styles=inlined_styles("style/colours.css", "style/attention.css"),
        modules=inlined_modules("draw/attention.js", "i18n/i18n.js"),
    )  # fmt: skip
    path = run / "report.html"
    write_text(path, page)
    return path


def helpers_in(run: Path) -> dict[str, str]:
    """The models that were trained in a run before its own, and how good each is: `BLEU 12.74, 20,000 lines translated`."""
    found = {}
    for name in ("reverse", "first"):
        path = run / name / "results.json"
        if path.is_file():
            scores = json.loads(path.read_text(encoding="utf-8"))["best"]["validation"]
            lines = lines_translated(run / name)
            made = f", {lines:,} lines translated" if lines else ""
            found[name] = f"{one_line(scores).partition('  ')[0]}{made}"
    return found


def main_score_first(scores: Scores, metric: str) -> dict[str, str]:
    """Name → formatted value; the score that chose the best checkpoint comes first."""
    first = {metric: scores[metric]} if metric in scores else {}
    return {**shown_scores(first), **shown_scores(scores)}


def learning_curves(entries: Sequence[Entry], metric: str, unit: str) -> list[Chart]:
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


def typical_explanation(pipeline: Pipeline[Example, ModelOutput], examples: Sequence[Example]) -> Explanation | None:
    """Of an example of medium length: long enough to show something, short enough to be drawn. None without examples."""
    found = []
    for example in examples:
        with suppress(UsageError):  # its attention would not fit into memory
            found.append(explain_example(pipeline, example))
    found.sort(key=_widest)
    fitting = [one for one in found if _widest(one) <= LONGEST] or found[:1]
    return fitting[len(fitting) // 2] if fitting else None


def _widest(explanation: Explanation) -> int:
    return max(len(sequence.tokens) for sequence in explanation.sequences.values())


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""
