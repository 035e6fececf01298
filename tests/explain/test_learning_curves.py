"""Learning curves are drawn whatever was logged: few points, none, or numbers that are not finite."""

from __future__ import annotations

import math

import pytest

from heedful.explain.learning_curves import MARKED, line_chart, round_ticks, tick_label


@pytest.mark.parametrize("highest", [0.0, 0.003, 0.3, 0.7, 1.0, 3.44, 99.9, 100.0, 15_012.0, 2e6])
def test_ticks_are_few_round_and_reach_the_highest_value(highest: float) -> None:
    ticks = round_ticks(highest)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0.0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert all(len(str(tick)) <= 10 for tick in ticks)
    assert len({tick_label(tick) for tick in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "0"), (0.1 + 0.2, "0.3"), (0.0005, "0.0005"), (2.5, "2.5"), (1500, "1,500"), (20_000, "20k"), (1.5e6, "1.5M")],
)
def test_tick_labels_are_short(value: float, label: str) -> None:
    assert tick_label(value) == label


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_value_that_is_missing_or_not_finite_is_left_out(bad: float | None) -> None:
    chart = line_chart("Loss", {"training": [(1, 4.0), (2, bad), (3, 2.0)], "validation": [(3, bad)]})
    assert chart is not None
    (line,) = chart.lines
    assert line.name == "training"
    assert len(line.points) == 2
    assert line_chart("Loss", {"training": [(1, bad)], "validation": []}) is None


def test_few_points_are_marked_so_that_even_one_is_visible() -> None:
    chart = line_chart("Loss", {"one": [(5, 1.0)], "many": [(step, 1.0) for step in range(MARKED + 1)]})
    assert chart is not None
    assert [line.marked for line in chart.lines] == [True, False]
    ((x, y),) = chart.lines[0].points
    assert chart.left <= x <= chart.width - chart.right
    assert chart.top <= y <= chart.height - chart.bottom
