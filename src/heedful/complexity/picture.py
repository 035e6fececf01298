"""The survey as curves on logarithmic axes, alone or in a page with the tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from heedful.complexity.measure import Cost
from heedful.complexity.survey import LayerReport, SurveySettings
from heedful.complexity.table import skipped_lines, tables
from heedful.errors import HeedfulError

LINES = ("-", "--", ":", "-.")  # line styles, for more layers than the eleven colours


def load_matplotlib() -> Any:
    """matplotlib's pyplot without a display, or an error that says how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise HeedfulError("pictures need matplotlib; install it with: pip install 'heedful[plots]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def drawn(plan: SurveySettings, reports: Sequence[LayerReport], form: str) -> bytes:
    """Three charts side by side as a PNG or SVG: time and memory over length, time over width."""
    pyplot = load_matplotlib()
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5.2), layout="constrained")
    charts = (
        (f"Time over length, D={plan.shape.width:,}", "positions L", "milliseconds", LayerReport.over_lengths),
        (f"Peak memory over length, D={plan.shape.width:,}", "positions L", "megabytes", LayerReport.over_lengths),
        (f"Time over width, L={plan.length:,}", "width D", "milliseconds", LayerReport.over_widths),
    )
    colours = (*pyplot.colormaps["tab10"].colors, "black")
    for place, (axis, (title, below, beside, points)) in enumerate(zip(axes, charts, strict=True)):
        for number, report in enumerate(reports):
            drawable = [cost for cost in points(report, plan) if cost.seconds]
            sizes = [cost.width if place == 2 else cost.length for cost in drawable]
            values = [_megabytes(cost) if place == 1 else _milliseconds(cost) for cost in drawable]
            line, colour = LINES[number // len(colours) % len(LINES)], colours[number % len(colours)]
            axis.plot(sizes, values, line, color=colour, marker="o", markersize=3.5, label=report.layer.name)
        axis.set(title=title, xlabel=below, ylabel=beside, xscale="log", yscale="log")
        ticks = sorted(set(plan.widths if place == 2 else plan.lengths))
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(pyplot.matplotlib.ticker.LogLocator(subs=(1, 3), numticks=20))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    written = io.BytesIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type")) if form == "svg" else None  # only what is drawn
    figure.savefig(written, format=form, dpi=110, metadata=metadata)
    pyplot.close(figure)
    return written.getvalue()


def _milliseconds(cost: Cost) -> float:
    return 1000 * (cost.seconds or 0.0)


def _megabytes(cost: Cost) -> float:
    return (cost.bytes or 0) / 1e6


def page(plan: SurveySettings, reports: Sequence[LayerReport]) -> str:
    """One self-contained page: the curves, the tables, what was left out."""
    environment = Environment(
        loader=PackageLoader("heedful", "complexity"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    picture = drawn(plan, reports, "svg").decode()
    return environment.get_template("page.template.html").render(
        picture=Markup(picture[picture.index("<svg") :]), tables=tables(plan, reports), skipped=skipped_lines(reports)
    )
