"""Learning curves as line charts: positions of lines, ticks and labels. The template of the page draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Point = tuple[float, float]
MARKED = 12  # a line of at most this many points shows each of them


@dataclass(frozen=True)
class Line:
    """One curve, in the coordinates of the chart."""

    name: str
    points: list[Point]

    @property
    def marked(self) -> bool:
        """Whether its points are drawn; a single point would be invisible without."""
        return len(self.points) <= MARKED


@dataclass(frozen=True)
class Chart:
    """Curves over training steps with round ticks; x grows to the right and y downwards, as in SVG."""

    title: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]  # position and label
    y_ticks: list[tuple[float, str]]
    width: int = 360
    height: int = 210
    left: int = 46
    right: int = 12
    top: int = 12
    bottom: int = 36


def line_chart(title: str, series: Mapping[str, Iterable[tuple[float, float | None]]], keep_empty: bool = False) -> Chart | None:
    """A chart of named series of (step, value). Values that are missing or not finite are left out; None if none is left.

    With `keep_empty` a series without values stays, so that the others have the same colours in every chart.
    """
    finite = {name: [(x, y) for x, y in points if y is not None and math.isfinite(y)] for name, points in series.items()}
    kept = {name: points for name, points in finite.items() if points or keep_empty}
    if not any(kept.values()):
        return None
    ticks_x, ticks_y = (round_ticks(max(point[axis] for points in kept.values() for point in points)) for axis in (0, 1))

    def right_to(x: float) -> float:
        return round(Chart.left + (Chart.width - Chart.left - Chart.right) * x / ticks_x[-1], 1)

    def up_to(y: float) -> float:
        return round(Chart.height - Chart.bottom - (Chart.height - Chart.bottom - Chart.top) * y / ticks_y[-1], 1)

    return Chart(
        title,
        [Line(name, [(right_to(x), up_to(y)) for x, y in points]) for name, points in kept.items()],
        [(right_to(x), tick_label(x)) for x in ticks_x],
        [(up_to(y), tick_label(y)) for y in ticks_y],
    )


def round_ticks(highest: float) -> list[float]:
    """Three to six round numbers from zero to at least the highest value."""
    highest = highest if highest > 0 else 1.0
    exponent = math.floor(math.log10(highest))
    step = next(part * 10.0**exponent for part in (0.2, 0.5, 1.0, 2.0) if highest / (part * 10.0**exponent) <= 5)
    return [round(step * number, 1 - exponent) for number in range(math.ceil(highest / step - 1e-9) + 1)]


def tick_label(value: float) -> str:
    """A short form of a number: 0.3, 1,500, 20k, 1.5M."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.6g}{letter}"
    return f"{value:,.6g}"
