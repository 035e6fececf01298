"""The whole survey: every layer at every length and width, its sequential steps and its longest paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from heedful.complexity.exponents import fitted_exponent
from heedful.complexity.layers import LAYERS, LayerShape, LayerType
from heedful.complexity.measure import SHARE, Cost, measure
from heedful.complexity.reach import longest_path
from heedful.complexity.steps import sequential_steps
from heedful.errors import UsageError
from heedful.runtime.device import available_memory
from heedful.runtime.screen import duration

FLOAT = 4  # bytes
LONGEST, WIDEST = 10_000_000, 65_536  # largest sizes that may be requested; memory may allow less
LONGEST_PATH = 1024  # positions between which gradients are traced, each with each
COPIES = 40  # copies of a layer's input that a forward and a backward pass keep at a time, roughly


@dataclass(frozen=True)
class SurveySettings:
    """What is measured."""

    layers: Sequence[str]
    lengths: Sequence[int]
    widths: Sequence[int]
    shape: LayerShape  # its width is used for the measurements over lengths
    length: int  # of the measurements over widths
    path_lengths: Sequence[int]
    path_shape: LayerShape
    rounds: int = 3
    seconds: float = 60.0  # measurements that would take longer are skipped

    def __post_init__(self) -> None:
        for name, values, most in (
            ("lengths", [*self.lengths, self.length], LONGEST),
            ("widths", [*self.widths, self.shape.width], WIDEST),
            ("path lengths", self.path_lengths, LONGEST_PATH),
            ("windows", [self.shape.attention.window, self.path_shape.attention.window], LONGEST),
            ("the kernel", [self.shape.kernel], LONGEST),
            ("the heads", [self.shape.heads], WIDEST),
            ("the rounds", [self.rounds], 1000),
        ):
            wrong = [value for value in values if not 1 <= value <= most]
            if wrong:
                raise UsageError(f"{name} must be from 1 to {most:,}, not {wrong[0]:,}")
        for width in [*self.widths, self.shape.width]:
            if width % self.shape.heads:
                raise UsageError(f"a width of {width:,} cannot be split into {self.shape.heads:,} heads")

    @property
    def points(self) -> list[tuple[int, int]]:
        """Every (length, width) that is measured, each once; small ones first."""
        over_lengths = [(length, self.shape.width) for length in sorted(set(self.lengths))]
        over_widths = [(self.length, width) for width in sorted(set(self.widths))]
        return list(dict.fromkeys([*over_lengths, *over_widths]))


@dataclass
class LayerReport:
    """The results for one layer."""

    layer: LayerType
    costs: list[Cost] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)  # length → sequential steps
    paths: dict[int, int | None] = field(default_factory=dict)  # length → longest path; None: not connected by L layers

    def over_lengths(self, plan: SurveySettings) -> list[Cost]:
        """The costs at the width of the plan, by length."""
        return sorted((c for c in self.costs if c.width == plan.shape.width and c.length in plan.lengths), key=lambda c: c.length)

    def over_widths(self, plan: SurveySettings) -> list[Cost]:
        """The costs at the length of the plan, by width."""
        return sorted((c for c in self.costs if c.length == plan.length and c.width in plan.widths), key=lambda c: c.width)

    def exponents(self, plan: SurveySettings) -> dict[str, float | None]:
        """The fitted exponents of time and memory in length and in width, of sequential steps and of the longest path."""
        lengths, widths = self.over_lengths(plan), self.over_widths(plan)
        return {
            "time in L": fitted_exponent((c.length, c.seconds or 0) for c in lengths),
            "time in D": fitted_exponent((c.width, c.seconds or 0) for c in widths),
            "memory in L": fitted_exponent((c.length, c.bytes or 0) for c in lengths),
            "memory in D": fitted_exponent((c.width, c.bytes or 0) for c in widths),
            "steps in L": fitted_exponent(self.steps.items()),
            "path in L": fitted_exponent((length, path or 0) for length, path in self.paths.items()),
        }


def survey(plan: SurveySettings, tick: Callable[[], object], found: list[LayerReport]) -> None:
    """Measure everything, calling `tick` after each part; results so far are in `found` even if this is interrupted."""
    for name in plan.layers:
        report = LayerReport(LAYERS[name])
        found.append(report)
        for length in plan.path_lengths:
            trace(report, plan.path_shape, length)
            tick()
        for length, width in plan.points:
            report.costs.append(cost_of(report, plan, length, replace(plan.shape, width=width)))
            tick()


def trace(report: LayerReport, shape: LayerShape, length: int) -> None:
    """The sequential steps of one layer and its longest path, at a length."""
    torch.manual_seed(1)
    layer = report.layer
    report.steps[length] = sequential_steps(layer.build(shape, length, 0).eval(), torch.randn(1, length, shape.width))
    report.paths[length] = longest_path(layer.steps(shape, length), length, shape.width, layer.directed)


def cost_of(report: LayerReport, plan: SurveySettings, length: int, shape: LayerShape) -> Cost:
    """Measure one point, unless it would not fit into memory or take too long."""
    limit = int(SHARE * available_memory())
    needed, seconds = predicted(report, length, shape)
    name = report.layer.name
    if needed > limit:
        return Cost(name, length, shape.width, skipped=f"needs about {needed / 1e9:,.1f} GB; {limit / 1e9:,.1f} GB may be used")
    if seconds * (plan.rounds + 1) > plan.seconds:
        return Cost(name, length, shape.width, skipped=f"would take about {duration(seconds * (plan.rounds + 1))}")
    return measure(name, length, shape, plan.rounds, limit)


def predicted(report: LayerReport, length: int, shape: LayerShape) -> tuple[float, float]:
    """The predicted bytes and seconds of a measurement, from what the layer keeps and the measurements so far."""
    layer = report.layer
    needed = float(FLOAT * (COPIES * length * shape.width + 12 * shape.width**2))
    if layer.dense:
        needed += FLOAT * 4 * shape.heads * length**2
    seconds = 0.0
    in_length, in_width = layer.theory.time if layer.theory else (2.0, 1.0)
    for cost in report.costs:
        if cost.seconds is not None and cost.bytes is not None:
            longer, wider = length / cost.length, shape.width / cost.width
            growth = layer.theory.memory if layer.theory else (2.0, 1.0)
            seconds = max(seconds, cost.seconds * longer**in_length * wider**in_width)
            needed = max(needed, cost.bytes * longer ** growth[0] * wider ** growth[1])
    return needed, seconds
