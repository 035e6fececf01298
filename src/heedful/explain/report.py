"""`report.html`: one self-contained page about a run: curves, scores, samples, attention."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from heedful.evaluation.names import SHOWN, shown_scores
from heedful.explain.maps import AttentionMap, attention_maps
from heedful.pipelines.pipeline import Pipeline
from heedful.recipes import load_recipe
from heedful.runtime.run_log import read_metrics

COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea")
LONGEST = 48  # tokens of the example whose attention is drawn
Series = list[tuple[float, float]]


def write_report(run: Path, results: dict[str, Any], pipeline: Pipeline[Any], examples: Sequence[Any], unit: str) -> Path:
    """Write the report of a finished run and return its path. The attention is that of one of the examples."""
    recipe = load_recipe(str(run / "recipe.toml"))
    entries = read_metrics(run / "metrics.jsonl")
    train = [entry for entry in entries if entry["kind"] == "train"]
    valid = [entry for entry in entries if entry["kind"] == "valid"]
    split = "test" if "test" in results["best"] else "validation"
    scores = results["best"][split]
    parameters = sum(p.numel() for p in pipeline.model.parameters())
    facts = {
        **shown_scores(scores),
        "parameters": f"{parameters:,}",
        "steps": f"{results['steps']:,}",
        "training": f"{results['seconds'] / 60:.1f} min",
    }
    per_cent = [key for key, (_, pattern) in SHOWN.items() if key in scores and not pattern.startswith("{:.3")]
    curves = [
        curve(f"Loss per {unit.removesuffix('s')}", {
            "training": [(e["step"], e["nll"]) for e in train if e["nll"] is not None],
            "validation": [(e["step"], e["loss"]) for e in valid if "loss" in e],
        }),
        curve("Validation score", {SHOWN[key][0]: [(e["step"], e[key]) for e in valid] for key in per_cent if key != "loss"}),
        curve(f"Speed, {unit} per second", {
            "": [(e["step"], e["tokens_per_second"]) for e in train],
        }),
    ]  # fmt: skip
    signatures = [f"{SHOWN[key][0]} {scores[f'{key}_signature']}" for key in ("bleu", "chrf") if f"{key}_signature" in scores]
    page = resources.files("heedful.explain").joinpath("report.template.html").read_text(encoding="utf-8")
    filled = {
        "title": html.escape(recipe.name),
        "about": html.escape(recipe.about),
        "facts": "".join(f"<div><b>{html.escape(v)}</b><span>{html.escape(k)}</span></div>" for k, v in facts.items()),
        "split": split,
        "signatures": html.escape(" · ".join(signatures)),
        "scores": _score_table(results),
        "curves": "".join(curves),
        "samples": _sample_table(results["samples"]),
        "recipe": html.escape(recipe.to_toml()),
        "attention": _as_script(_maps(middling(pipeline, examples))),
    }
    for key, value in filled.items():
        page = page.replace("{{" + key + "}}", value)
    path = run / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def curve(title: str, series: dict[str, Series], width: int = 420, height: int = 240) -> str:
    """A line chart over steps, as SVG."""
    points = [point for values in series.values() for point in values]
    if not points:
        return ""
    left, bottom, top, right = 56, 34, 30, 12
    ticks_x, ticks_y = (round_ticks(max(point[axis] for point in points)) for axis in (0, 1))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (width - left - right) * x / ticks_x[-1],
            height - bottom - (height - bottom - top) * y / ticks_y[-1],
        )

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}">']
    parts.append(f'<text x="{left}" y="16" class="title">{html.escape(title)}</text>')
    for value in ticks_y:
        _, y = at(0, value)
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" class="tick end">{value:,g}</text>')
    for value in ticks_x:
        x, _ = at(value, 0)
        anchor = "end" if value == ticks_x[-1] else "middle"
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 16}" class="tick {anchor}">{value:,g}</text>')
    parts.append(f'<text x="{left}" y="{height - 4}" class="tick">step</text>')
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in values))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if name:
            x = left + 60 + index * 100
            parts.append(f'<rect x="{x}" y="{height - 13}" width="10" height="10" fill="{colour}"/>')
            parts.append(f'<text x="{x + 14}" y="{height - 4}" class="tick">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>"


def round_ticks(highest: float) -> list[float]:
    """Three to six round numbers from zero to at least the highest value."""
    highest = highest if highest > 0 else 1.0
    size = 10.0 ** math.floor(math.log10(highest))
    step = next(size * part for part in (0.2, 0.5, 1.0, 2.0) if highest / (size * part) <= 5)
    return [step * number for number in range(math.ceil(highest / step - 1e-9) + 1)]


def middling(pipeline: Pipeline[Any], examples: Sequence[Any]) -> dict[str, AttentionMap]:
    """The attention of a middling example: long enough to show something, short enough to be read and drawn."""
    found = sorted((attention_maps(pipeline, example) for example in examples), key=_widest)
    drawable = [maps for maps in found if _widest(maps) <= LONGEST] or found[:1]
    return drawable[len(drawable) // 2]


def _widest(maps: dict[str, AttentionMap]) -> int:
    return max((max(len(one.rows), len(one.columns)) for one in maps.values()), default=0)


def _score_table(results: dict[str, Any]) -> str:
    names = shown_scores(next(iter(results["best"].values())))
    head = "".join(f"<th>{html.escape(name)}" for name in ("model", "held-out set", *names))
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in (name, split, *shown_scores(scores).values()))
        for name in ("best", "final")
        for split, scores in results[name].items()
    ]
    return f"<table><tr>{head}{''.join(rows)}</table>"


def _sample_table(samples: Sequence[dict[str, str]]) -> str:
    rows = [
        f'<tr class="{"same" if s["reference"] == s["output"] else ""}">'
        + "".join(f'<td dir="auto">{html.escape(s[key])}' for key in ("input", "output", "reference"))
        for s in samples
    ]
    return f"<table><tr><th>input<th>output<th>reference{''.join(rows)}</table>"


def _maps(maps: dict[str, AttentionMap]) -> dict[str, Any]:
    """The maps with three decimals, small enough to stand in a page."""
    return {
        kind: {
            "about": one.about,
            "rows": one.rows[:LONGEST],
            "columns": one.columns[:LONGEST],
            "layers": [w[:, :LONGEST, :LONGEST].round(3).tolist() for w in one.layers],
        }
        for kind, one in maps.items()
    }


def _as_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
