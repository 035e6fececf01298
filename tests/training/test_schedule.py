"""The learning rate by step."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest

from heedful.recipes.settings import TrainingSettings
from heedful.settings import hints
from heedful.training.schedule import learning_rate

SCHEDULES = get_args(hints(TrainingSettings)["schedule"])


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (1024, 4000), (128, 400), (64, 1)])
def test_a_rate_of_zero_is_the_formula_of_the_paper(d_model: int, warmup: int) -> None:
    for step in (1, 2, 10, warmup - 1, warmup, warmup + 1, 3 * warmup, 100_000):
        if step < 1:
            continue
        expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, "inverse-sqrt", 0.0, warmup, 100_000, d_model) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_peak_is_reached_at_the_end_of_warmup_and_never_passed(schedule: str) -> None:
    rates = [learning_rate(step, schedule, 0.003, 200, 1000, 512) for step in range(1, 1001)]
    assert max(rates) == rates[199] == pytest.approx(0.003)
    rising, after = rates[:200], rates[199:]
    assert rising == sorted(rising)
    assert len(set(rising)) == 200
    assert after == sorted(after, reverse=True)
    assert rates[0] == pytest.approx(0.003 / 200)


def test_linear_falls_evenly_to_about_zero_at_the_last_step() -> None:
    rates = [learning_rate(step, "linear", 0.003, 200, 1000, 512) for step in range(1, 1001)]
    assert 0 < rates[-1] < 0.003 / 500
    falls = [before - after for before, after in pairwise(rates[199:])]
    assert max(falls) == pytest.approx(min(falls))
    assert max(falls) == pytest.approx(0.003 / 801)


def test_constant_stays_at_its_peak() -> None:
    assert {learning_rate(step, "constant", 0.01, 10, 100, 512) for step in range(10, 101)} == {0.01}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_shorter_than_its_warmup_only_rises(schedule: str) -> None:
    rates = [learning_rate(step, schedule, 0.01, 100, 50, 512) for step in range(1, 51)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(0.005)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_rate_of_a_run_is_positive(schedule: str) -> None:
    for warmup, steps in ((1, 1), (1, 2), (5, 5), (10, 9), (10, 300)):
        assert all(learning_rate(step, schedule, 0.0, warmup, steps, 64) > 0 for step in range(1, steps + 1))


def test_no_rate_is_negative_after_the_last_step() -> None:
    """A trial that measures speed goes on for some seconds, however few steps are planned."""
    for schedule in ("linear", "inverse-sqrt", "constant"):
        assert all(learning_rate(step, schedule, 0.003, 5, 20, 512) >= 0 for step in (21, 22, 500))
