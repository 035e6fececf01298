"""A plan: settings that suit the amount of parallel text, the speed of the machine and the time, each with its reason.

`plan_pairs` is a plain function of numbers: it reads no files and trains nothing. The middle of its scale was measured on
Multi30k, 29,000 short pairs; both ends are extrapolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heedful.data.statistics import PairStatistics
from heedful.settings import Values

MIDDLE = 29_000  # pairs of the corpus in the middle of the scale
PASSES = 35.0  # over it, in 16,000 steps
LEAST_STEPS = 300  # that are planned where there is time
MOST_VALIDATIONS = 16
ENOUGH = 0.5  # of the steps that would help; a shorter training overfits less
PATIENCE = 6  # validations
SPARE = 0.05  # share of the given time that the plan leaves
MEASURED = {"layers": 4, "d_model": 128}

# Pairs → (layers of encoder and decoder each, width, width of the feed-forward network, heads), up to that many pairs.
SHAPES = {
    100_000: (4, 128, 256, 4),
    300_000: (4, 256, 512, 4),
    1_000_000: (6, 256, 1024, 4),
    3_000_000: (6, 384, 1536, 6),
    10**12: (6, 512, 2048, 8),
}
DROPOUTS = {100_000: 0.3, 300_000: 0.2, 10**12: 0.1}  # up to that many pairs
BATCHES = {300_000: 1024, 1_000_000: 2048, 10**12: 4096}  # tokens of a batch


@dataclass(frozen=True)
class Choice:
    """The value of a setting such as `training.steps`, and why."""

    setting: str
    value: Any  # an int or a float, as the setting has it
    reason: str


@dataclass(frozen=True)
class Speed:
    """How fast a machine trains and scores a model, measured; in seconds, except for the rate and the memory."""

    rate: float  # tokens, or other units, per second
    step: float
    r_drop_step: float  # a step with R-Drop
    validation: float = 0.0  # to score one pair or example during training
    scoring: float = 0.0  # to score one at the end
    memory: int = 0  # bytes, of all processes


@dataclass(frozen=True)
class Plan:
    """Settings with their reasons, and how long they take."""

    choices: tuple[Choice, ...]
    summary: str  # one line for people
    seconds: float | None = None  # of training, validation and final scoring; None if the speed is not known
    full_steps: int = 0  # that would be planned without a time limit

    def values(self) -> Values:
        """`section.key` → value."""
        return {choice.setting: choice.value for choice in self.choices}


def plan_pairs(data: PairStatistics, given: Mapping[str, Any], seconds: float | None = None, speed: Speed | None = None) -> Plan:
    """The plan for parallel text, where the settings `given` (by `section.key`) are decided already.

    With `seconds` and the measured `speed` of the model it plans, the whole training ends in that time.
    """
    choices: list[Choice] = []

    def choose(setting: str, value: Any, reason: str) -> Any:
        if setting in given:
            return given[setting]
        choices.append(Choice(setting, value, reason))
        return value

    many = f"{data.pairs:,} pairs"
    vocabulary = choose("tokenizer.size", vocabulary_size(data), f"{many}, {data.distinct_characters:,} different characters")
    layers, width = _shape(data.pairs, given, choose)
    batch_tokens = choose("training.batch_tokens", _up_to(BATCHES, data.pairs), f"{many}: small batches learn faster")
    r_drop = choose("training.r_drop", 1.0, "the same batch twice with different dropout helps where data is scarce")
    passes = PASSES * (MIDDLE / data.pairs) ** 0.5
    full_steps = max(LEAST_STEPS, rounded(passes * data.tokens_of_a_pass / batch_tokens))

    steps, reason = full_steps, f"about {passes:,.0f} passes over {many}"
    clock = None
    if speed is not None:
        judged = min(data.valid, given.get("training.validate_pairs", data.valid))
        clock = Clock(speed, given.get("training.r_drop_from", 0.0) if r_drop else 1.0, judged, data.valid + data.test)
        if seconds is not None and (possible := clock.steps_in(seconds)) < full_steps:
            steps, reason = possible, f"what this machine does in {seconds / 60:,.0f} minutes"
    steps = choose("training.steps", steps, reason)
    choose("training.warmup", min(600, max(1, steps // 10)), f"a tenth of {steps:,} steps, 600 at most")
    part = min(1.0, steps / full_steps)
    reason = f"{many}" + (f", seen in {part:.0%} of the steps that would help" if part < ENOUGH else ": the fewer, the more")
    dropout = choose("model.dropout", short_dropout(_up_to(DROPOUTS, data.pairs), part), reason)
    choose("training.learning_rate", round(0.003 * (128 / width) ** 0.5, 6), f"for a width of {width}")
    choose("training.ema", round(min(0.9999, max(0.0, 1 - 16 / steps)), 5), f"a mean over a sixteenth of {steps:,} steps")
    every = -(-steps // validations(steps))
    every = choose("training.validate_every", every, f"{validations(steps)} validations")
    choose("training.checkpoint_every", min(1000, every), "at most 1,000 steps can be lost")
    patient = validations(steps) == MOST_VALIDATIONS
    choose("training.patience", PATIENCE if patient else 0, f"stop when {PATIENCE} validations in a row bring nothing better")
    below = given.get("model.decoder_layers") or layers
    summary = f"{many}: {vocabulary:,} subwords, {layers} + {below} layers of {width}, dropout {dropout:g}, {steps:,} steps"
    return Plan(tuple(choices), summary, clock.seconds_of(steps, steps // every) if clock else None, full_steps)


@dataclass(frozen=True)
class Clock:
    """How long training takes at a measured speed."""

    speed: Speed
    r_drop_from: float  # share of the steps; 1 without R-Drop
    judged: int  # pairs of each validation
    scored: int  # pairs that are scored at the end

    def seconds_of(self, steps: int, count: int) -> float:
        """Seconds for this many steps and validations, and for the final scoring of two models."""
        step = self.r_drop_from * self.speed.step + (1 - self.r_drop_from) * self.speed.r_drop_step
        return steps * step + count * self.judged * self.speed.validation + 2 * self.scored * self.speed.scoring

    def steps_in(self, seconds: float) -> int:
        """The number of steps that fit into some seconds, with a little to spare; at least one."""
        low, high = 1, 10**9
        while low < high:
            middle = (low + high + 1) // 2
            ends = self.seconds_of(middle, validations(middle)) <= (1 - SPARE) * seconds
            low, high = (middle, high) if ends else (low, middle - 1)
        return low


def short_dropout(dropout: float, part: float) -> float:
    """The dropout when only a part of the useful steps can be run: short training does not overfit."""
    share = min(1.0, part / ENOUGH)
    return round(20 * dropout * (1 + 2 * share) / 3) / 20


def vocabulary_size(data: PairStatistics) -> int:
    """10,000 tokens for 29,000 pairs, growing with the root of the pairs; at most 32,000, and enough for every character.

    A character of another script than Latin is three bytes, which two merges put together.
    """
    least = max(500.0, 300.0 + 2 * data.distinct_characters)
    return rounded(min(32_000.0, max(least, 10_000 * (data.pairs / MIDDLE) ** 0.5)))


def validations(steps: int) -> int:
    """The number of validations: 16, fewer in a short run."""
    return min(MOST_VALIDATIONS, max(1, steps // 250))


def rounded(number: float) -> int:
    """To two digits: 8,417 becomes 8,400."""
    whole = max(1, round(number))
    unit = 10 ** max(0, len(str(whole)) - 2)
    return max(1, round(whole / unit)) * unit


def _up_to(table: Mapping[int, Any], pairs: int) -> Any:
    """The value of the first row whose limit is at least this many pairs."""
    return next(value for most, value in table.items() if pairs <= most)


def _shape(pairs: int, given: Mapping[str, Any], choose: Any) -> tuple[int, int]:
    """Choose layers, width, width of the feed-forward network and heads; returns the first two."""
    layers, width, inner, heads = _up_to(SHAPES, pairs)
    factor, head_width = inner // width, width // heads
    if (asked := given.get("model.heads")) and width % (2 * asked):  # every head needs an even width
        width = -(-width // (2 * asked)) * 2 * asked
    reason = f"{pairs:,} pairs"
    layers = choose("model.layers", layers, reason)
    width = choose("model.d_model", width, reason)
    choose("model.d_ff", factor * width, f"{factor} times the width")
    possible = [heads for heads in range(1, max(1, width // head_width) + 1) if width % (2 * heads) == 0]
    choose("model.heads", max(possible, default=1), f"of {head_width} each")
    return layers or MEASURED["layers"], width or MEASURED["d_model"]
