"""`report.html`: one self-contained page about a run: curves, scores, translations, attention."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from heedful.decoding.translator import Translator
from heedful.explain.maps import AttentionMaps, attention_maps
from heedful.recipes import load_recipe
from heedful.training.log import read_metrics

COLOURS = ("#2563eb", "#ea580c", "#059669")
LONGEST = 40  # tokens of the example whose attention is drawn
Series = list[tuple[float, float]]


def write_report(run: Path, results: dict[str, Any], translator: Translator) -> Path:
    """Write the report of a finished run and return its path."""
    recipe = load_recipe(str(run / "recipe.toml"))
    entries = read_metrics(run / "metrics.jsonl")
    train = [entry for entry in entries if entry["kind"] == "train"]
    valid = [entry for entry in entries if entry["kind"] == "valid"]
    samples = results["samples"]
    # A middling example: long enough to show something, short enough to be read and drawn.
    by_length = sorted((s["source"] for s in samples), key=lambda text: len(translator.source_tokenizer.encode(text)))
    short = [text for text in by_length if len(translator.source_tokenizer.encode(text)) <= LONGEST]
    example = short[len(short) // 2] if short else by_length[0]
    split = "test" if "test" in results["best"] else "validation"
    scores = results["best"][split]
    minutes = results["seconds"] / 60
    parameters = sum(p.numel() for p in translator.model.parameters())
    facts = {
        "BLEU": f"{scores['bleu']:.1f}",
        "chrF": f"{scores['chrf']:.1f}",
        "exact match": f"{scores['exact']:.1f} %",
        "perplexity": f"{scores['perplexity']:.3f}",
        "parameters": f"{parameters:,}",
        "steps": f"{results['steps']:,}",
        "training": f"{minutes:.1f} min",
    }
    curves = [
        curve("Loss per target token", {
            "training": [(e["step"], e["nll"]) for e in train if e["nll"] is not None],
            "validation": [(e["step"], e["loss"]) for e in valid],
        }),
        curve("Validation score", {
            "BLEU": [(e["step"], e["bleu"]) for e in valid],
            "chrF": [(e["step"], e["chrf"]) for e in valid],
            "exact, %": [(e["step"], e["exact"]) for e in valid],
        }),
        curve("Speed, target tokens per second", {
            "": [(e["step"], e["tokens_per_second"]) for e in train],
        }),
    ]  # fmt: skip
    page = resources.files("heedful.explain").joinpath("report.template.html").read_text(encoding="utf-8")
    filled = {
        "title": html.escape(recipe.name),
        "about": html.escape(recipe.about),
        "facts": "".join(f"<div><b>{html.escape(v)}</b><span>{html.escape(k)}</span></div>" for k, v in facts.items()),
        "split": split,
        "signatures": html.escape(f"BLEU {scores['bleu_signature']} · chrF {scores['chrf_signature']}"),
        "scores": _score_table(results),
        "curves": "".join(curves),
        "samples": _sample_table(samples),
        "recipe": html.escape(recipe.to_toml()),
        "attention": _as_script(_maps(attention_maps(translator, example))),
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


def _score_table(results: dict[str, Any]) -> str:
    head = "<tr><th>model<th>held-out set<th>BLEU<th>chrF<th>exact match<th>perplexity"
    rows = [
        f"<tr><td>{name}<td>{split}<td>{s['bleu']:.2f}<td>{s['chrf']:.2f}<td>{s['exact']:.2f} %<td>{s['perplexity']:.3f}"
        for name in ("best", "final")
        for split, s in results[name].items()
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _sample_table(samples: Sequence[dict[str, str]]) -> str:
    rows = [
        f'<tr class="{"same" if s["reference"] == s["translation"] else ""}">'
        + "".join(f'<td dir="auto">{html.escape(s[key])}' for key in ("source", "translation", "reference"))
        for s in samples
    ]
    return f"<table><tr><th>source<th>translation<th>reference{''.join(rows)}</table>"


def _maps(maps: AttentionMaps) -> dict[str, Any]:
    """The maps with three decimals, small enough to stand in a page."""
    kinds = {
        "cross": ("written token (row) → source token", maps.outputs, maps.source, maps.cross),
        "encoder": ("source token (row) → source token", maps.source, maps.source, maps.encoder),
        "decoder": ("token read (row) → tokens before it", maps.inputs, maps.inputs, maps.decoder),
    }
    return {
        kind: {"about": about, "rows": rows, "columns": columns, "layers": [w.round(3).tolist() for w in layers]}
        for kind, (about, rows, columns, layers) in kinds.items()
    }


def _as_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
