"""The survey as tables: rows of text for a person, and rows of numbers for CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict

from heedful.complexity.survey import LayerReport, SurveySettings
from heedful.settings import JsonObject

NONE = "–"
Rows = list[list[str]]


def tables(plan: SurveySettings, reports: Sequence[LayerReport]) -> dict[str, tuple[list[str], Rows]]:
    """Title → heading and rows of both tables."""
    shape, traced = plan.shape, plan.path_shape
    over = f"L = {span(plan.lengths)} at D={shape.width:,}, D = {span(plan.widths)} at L={plan.length:,}"
    kinds = f"{shape.heads} heads, r={shape.attention.window}, k={shape.kernel}"
    return {
        f"Exponents of time and peak memory, fitted (in theory), of a forward and a backward pass: {over}; {kinds}": cost_rows(
            plan, reports
        ),
        f"Sequential steps and longest paths, traced with r={traced.attention.window}, k={traced.kernel}": path_rows(
            plan, reports
        ),
    }


def span(values: Sequence[int]) -> str:
    """`512 … 8,192`"""
    return f"{min(values):,} … {max(values):,}" if len(set(values)) > 1 else f"{values[0]:,}"


def cost_rows(plan: SurveySettings, reports: Sequence[LayerReport]) -> tuple[list[str], Rows]:
    """Heading and rows: how time and memory of each layer grow, measured and in theory."""
    head = ["layer", "cost in theory", "time in L", "time in D", "memory in L", "memory in D", *largest_heading(plan)]
    rows = []
    for report in reports:
        theory, found = report.layer.theory, report.exponents(plan)
        expected = [*theory.time, *theory.memory] if theory else [None] * 4
        names = ("time in L", "time in D", "memory in L", "memory in D")
        grown = [f"{exponent(found[name])} ({exponent(wanted)})" for name, wanted in zip(names, expected, strict=True)]
        rows.append([report.layer.name, theory.cost if theory else NONE, *grown, *largest(plan, report)])
    return head, rows


def largest_heading(plan: SurveySettings) -> list[str]:
    """The headings of time and memory at the greatest length."""
    longest = max(plan.lengths)
    return [f"ms at L={longest:,}", f"MB at L={longest:,}"]


def largest(plan: SurveySettings, report: LayerReport) -> list[str]:
    """Time and memory at the greatest length."""
    for cost in report.over_lengths(plan):
        if cost.length == max(plan.lengths) and cost.seconds is not None and cost.bytes is not None:
            return [milliseconds(cost.seconds), megabytes(cost.bytes)]
    return [NONE, NONE]


def path_rows(plan: SurveySettings, reports: Sequence[LayerReport]) -> tuple[list[str], Rows]:
    """Heading and rows: sequential steps and longest path of each layer, measured and in theory."""
    lengths = ", ".join(f"{length:,}" for length in plan.path_lengths)
    head = ["layer", f"sequential steps at L = {lengths}", "in theory", f"longest path at L = {lengths}", "in theory"]
    rows = []
    for report in reports:
        theory = report.layer.theory
        steps = ", ".join(f"{count:,}" for count in report.steps.values())
        paths = ", ".join(f"> {length:,}" if path is None else f"{path:,}" for length, path in report.paths.items())
        rows.append([report.layer.name, steps, theory.sequential if theory else NONE, paths, theory.path if theory else NONE])
    return head, rows


def skipped_lines(reports: Sequence[LayerReport]) -> list[str]:
    """A line for every skipped measurement, with the reason."""
    return [
        f"{report.layer.name} at {cost.length:,} positions, {cost.width:,} wide, was left out: {cost.skipped}"
        for report in reports
        for cost in report.costs
        if cost.skipped
    ]


def as_csv(reports: Sequence[LayerReport]) -> str:
    """One line per measurement; a layer's steps and paths are lines too."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["layer", "length", "width", "seconds", "bytes", "sequential_steps", "longest_path", "left_out"])
    for report in reports:
        for cost in report.costs:
            writer.writerow([cost.layer, cost.length, cost.width, cost.seconds, cost.bytes, None, None, cost.skipped])
        for length, steps in report.steps.items():
            writer.writerow([report.layer.name, length, None, None, None, steps, report.paths.get(length), None])
    return text.getvalue()


def as_json(plan: SurveySettings, reports: Sequence[LayerReport]) -> JsonObject:
    """The plan and all results."""
    return {
        "plan": asdict(plan),
        "layers": [
            {
                "layer": report.layer.name,
                "theory": asdict(report.layer.theory) if report.layer.theory else None,
                "exponents": report.exponents(plan),
                "costs": [asdict(cost) for cost in report.costs],
                "sequential_steps": report.steps,
                "longest_path": report.paths,
            }
            for report in reports
        ],
    }


def exponent(value: float | None) -> str:
    """`2` where it is exact, `1.93` where it is fitted."""
    return NONE if value is None else f"{value:.0f}" if isinstance(value, int) else f"{value:.2f}"


def milliseconds(seconds: float) -> str:
    """`0.35`, `12`, `1,250`"""
    value = seconds * 1000
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def megabytes(count: int) -> str:
    """Bytes as megabytes."""
    return f"{count / 1e6:,.0f}" if count >= 1e7 else f"{count / 1e6:.1f}"
