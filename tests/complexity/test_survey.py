"""Measuring layers: what is tried, what is left out and why, and how the results are written."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch

from heedful.complexity import survey as module
from heedful.complexity.exponents import fitted_exponent
from heedful.complexity.layers import LAYERS, LayerShape, small_attention
from heedful.complexity.measure import Cost, measure, peak_bytes
from heedful.complexity.survey import LayerReport, SurveySettings, cost_of, survey
from heedful.complexity.table import as_csv, as_json, cost_rows, path_rows, skipped_lines
from heedful.errors import UsageError


def plan(**changed: object) -> SurveySettings:
    small = LayerShape(16, 2, 3, small_attention(8))
    given = {"layers": ["full-stored"], "lengths": [64, 128], "widths": [8, 16], "shape": small, "length": 64}
    traced = {"path_lengths": [8], "path_shape": LayerShape(8, 2, 3, small_attention(2))}
    return SurveySettings(**{**given, **traced, "rounds": 1, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    assert fitted_exponent((size, 3e-6 * size**power) for size in (100, 200, 800)) == pytest.approx(power)


@pytest.mark.parametrize("points", [[], [(64, 0.1)], [(64, 0.1), (64, 0.2)], [(64, 0.1), (128, 0.0)]])
def test_one_size_has_no_exponent(points: list[tuple[float, float]]) -> None:
    assert fitted_exponent(points) is None


def test_the_peak_counts_what_is_there_at_a_time_and_nothing_else() -> None:
    numbers = torch.ones(1000)

    def one_after_the_other() -> None:
        for _ in range(3):
            (numbers + 1).sum()

    def together() -> list[torch.Tensor]:
        return [numbers + 1 for _ in range(3)]

    assert 4000 <= peak_bytes(one_after_the_other) < 4500
    assert 12000 <= peak_bytes(together) < 12500
    assert peak_bytes(lambda: numbers.add_(1)) < 100  # only the number 1


def test_stored_weights_take_memory_that_grows_with_the_square_and_the_fused_kernel_s_with_the_length() -> None:
    def grown(layer: str) -> float:
        costs = [measure(layer, length, LayerShape(16, 2), 1, 4 << 30) for length in (512, 2048)]
        assert all(cost.skipped == "" and cost.seconds and cost.bytes for cost in costs)
        assert costs[0].bytes == measure(layer, 512, LayerShape(16, 2), 1, 4 << 30).bytes, "it is the same each time"
        return (costs[1].bytes or 0) / (costs[0].bytes or 1)

    assert 15 < grown("full-stored") < 16.5
    assert grown("full") < 6  # the kernel's buffers are larger for long sequences


def test_a_measurement_that_outgrows_its_memory_says_so_and_harms_nobody() -> None:
    found = measure("full-stored", 4096, LayerShape(16, 2), 1, 300 << 20)
    assert (found.seconds, found.bytes) == (None, None)
    assert found.skipped == "it did not fit into 0.3 GB"


def test_what_cannot_fit_or_takes_too_long_is_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure", lambda *given: pytest.fail("it was tried"))
    report = LayerReport(LAYERS["full-stored"])
    huge = cost_of(report, plan(), 1_000_000, LayerShape(16, 2))
    assert "GB may be used" in huge.skipped
    assert huge.skipped.startswith("needs about 32,0")
    report.costs.append(Cost("full-stored", 1024, 16, seconds=3.0, bytes=10))
    assert cost_of(report, plan(), 4096, LayerShape(16, 2)).skipped == "would take about 1 min 36 s"
    gru = LayerReport(LAYERS["gru"], [Cost("gru", 1000, 16, seconds=3.0, bytes=8 << 30)])
    assert cost_of(gru, plan(seconds=1e9), 5000, LayerShape(16, 2)).skipped.startswith("needs about 42.9 GB")


def test_a_survey_reports_growth_steps_and_paths() -> None:
    chosen = plan(layers=["convolution", "gru"])
    found: list[LayerReport] = []
    ticks: list[None] = []
    survey(chosen, lambda: ticks.append(None), found)
    assert len(ticks) == 2 * (len(chosen.points) + 1) == 2 * 4
    assert [(cost.length, cost.width) for cost in found[0].costs] == [(64, 16), (128, 16), (64, 8)]
    assert found[1].paths == {8: 8}
    head, rows = path_rows(chosen, found)
    assert rows[0][3:] == ["7", "O(L/k)"]
    assert rows[1][3:] == ["8", "O(L)"]
    head, rows = cost_rows(chosen, found)
    assert head[2:6] == ["time in L", "time in D", "memory in L", "memory in D"]
    assert all(cell.endswith(")") for cell in rows[0][2:6])
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(lines) == 2 * 4
    assert float(lines[0]["seconds"]) > 0
    written = json.loads(json.dumps(as_json(chosen, found)))
    assert written["layers"][1]["longest_path"] == {"8": 8}
    assert written["layers"][1]["exponents"]["time in L"] == pytest.approx(found[1].exponents(chosen)["time in L"])


def test_a_layer_without_results_still_has_its_row() -> None:
    found = [LayerReport(LAYERS["full"], [Cost("full", 64, 16, skipped="too large")])]
    assert cost_rows(plan(), found)[1] == [["full", "O(L²·D)", "– (2)", "– (1)", "– (1)", "– (1)", "–", "–"]]
    assert skipped_lines(found) == ["full at 64 positions, 16 wide, was left out: too large"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lengths": [0]}, "lengths must be from 1 to 10,000,000, not 0"),
        ({"widths": [3]}, "a width of 3 cannot be split into 2 heads"),
        ({"path_lengths": [5000]}, "path lengths must be from 1 to 1,024, not 5,000"),
        ({"rounds": 0}, "the rounds must be from 1 to 1,000, not 0"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**changed)


def test_what_long_inputs_cost_says_nothing_against_short_wide_ones() -> None:
    report = LayerReport(LAYERS["full"], [Cost("full", 64, 16, 0.001, 1000), Cost("full", 16_384, 16, seconds=30.0, bytes=10)])
    found = cost_of(report, plan(seconds=1.0), 64, LayerShape(32, 2))
    assert found.seconds, found.skipped
