"""A plan: the settings that fit parallel text of some size, a machine of some speed and the time there is, each with its reason.

`plan_pairs` is a plain function of numbers: nothing is read and nothing is trained here. The middle of its scale is what was
measured on Multi30k, 29,000 short pairs; both ends are an extrapolation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from heedful.data.statistics import PairStatistics
from heedful.runtime.screen import duration
from heedful.settings import Values

MIDDLE = 29_000  # pairs of the corpus in the middle of the scale
PASSES = 35.0  # over it, in 16,000 steps
LEAST_STEPS = 300  # that are planned where there is time
MOST_VALIDATIONS = 16
ENOUGH = 0.5  # of the steps that would help; a shorter training overfits less
PATIENCE = 6  # validations
SPARE = 0.05  # share of the given time that the plan leaves
MEASURED = {"layers": 4, "d_model": 128}
R_DROP_PAYS = 0.3  # of the steps that would help; in a shorter time, more steps without it teach more
VALIDATIONS_SHARE = 0.1  # of a given time, which validations take at most where there are many pairs to translate
VALIDATED = (100, 1000)  # pairs of a validation, at least and at most
TOKENS_OF_A_PARAMETER = 5  # of the layers, read at least: in a shorter time a smaller model learns more


@dataclass(frozen=True)
class Shape:
    """The size of a model for up to so many pairs."""

    pairs: int
    layers: int  # of encoder and decoder each
    width: int
    inner: int  # width of the feed-forward network
    heads: int

    @property
    def parameters(self) -> int:
        """Of the layers, without embeddings: 4 + 8 matrices of attention and 2 + 2 of the feed-forward networks per layer."""
        return self.layers * self.width * (12 * self.width + 4 * self.inner)

    @property
    def tokens(self) -> int:
        """That a training should read."""
        return TOKENS_OF_A_PARAMETER * self.parameters


SHAPES = (
    Shape(100_000, 4, 128, 256, 4),
    Shape(300_000, 4, 256, 512, 4),
    Shape(1_000_000, 6, 256, 1024, 4),
    Shape(3_000_000, 6, 384, 1536, 6),
    Shape(10**12, 6, 512, 2048, 8),
)
DROPOUTS = {50_000: 0.3, 100_000: 0.25, 200_000: 0.2, 500_000: 0.15, 10**12: 0.1}  # up to that many pairs
BATCHES = {300_000: 1024, 1_000_000: 2048, 10**12: 4096}  # tokens of a batch


@dataclass(frozen=True)
class Choice:
    """The value of a setting such as `training.steps`, and why."""

    setting: str
    value: Any  # an int or a float, as the setting has it
    reason: str


@dataclass(frozen=True)
class Speed:
    """What a machine needs for a model, measured; in seconds, except for the rate."""

    rate: float  # tokens, or other units, per second
    step: float
    r_drop_step: float  # a step with R-Drop
    validation: float = 0.0  # of one pair or example, as it is done while training
    scoring: float = 0.0  # of one, as it is done at the end
    memory: int = 0  # bytes, of all processes


@dataclass(frozen=True)
class Plan:
    """Settings with their reasons, and how long they take."""

    choices: tuple[Choice, ...]
    summary: str  # one line for people
    seconds: float | None = None  # of training, validations and final scores; None where no speed is known
    full_steps: int = 0  # that would be planned if there were no limit of time

    def values(self) -> Values:
        """`section.key` → value."""
        return {choice.setting: choice.value for choice in self.choices}


def plan_pairs(
    data: PairStatistics,
    given: Mapping[str, Any],
    seconds: float | None = None,
    speed: Speed | None = None,
    largest: Shape | None = None,
) -> Plan:
    """The plan for parallel text, where the settings `given` (by `section.key`) are decided already.

    With `seconds` and the measured `speed` of the model it plans, the whole training ends in that time. `largest` is the
    largest shape of which enough can be trained in it.
    """
    choices: list[Choice] = []

    def choose(setting: str, value: Any, reason: str) -> Any:
        if setting in given:
            return given[setting]
        choices.append(Choice(setting, value, reason))
        return value

    many = f"{data.pairs:,} pairs"
    wanted = shape_for(data.pairs)
    shape = wanted if largest is None else min(wanted, largest, key=lambda one: one.parameters)
    why = many if shape is wanted else f"{many}, but not the time for a larger model"
    count = max(1, data.pairs)  # none at all is an error that the preparation explains
    like = min(count, shape.pairs)  # pairs that a model of this size is for
    vocabulary = vocabulary_size(data, like)
    vocabulary = choose("tokenizer.size", vocabulary, f"{many}, {data.distinct_characters:,} different characters")
    layers, width = _complete(shape, why, given, choose)
    batch_tokens = choose("training.batch_tokens", _up_to(BATCHES, like), f"{many}: small batches learn faster")
    passes = PASSES * (MIDDLE / count) ** 0.5
    full_steps = max(LEAST_STEPS, rounded(passes * data.tokens_of_a_pass / batch_tokens))

    r_drop, helps = 1.0, "the same batch twice with different dropout helps where data is scarce"
    steps, reason = full_steps, f"about {passes:,.0f} passes over {many}"
    clock, judged = None, min(data.valid, given.get("training.validate_pairs", VALIDATED[1]))
    if speed is not None:
        begins = given.get("training.r_drop_from", 0.0) if given.get("training.r_drop", 1.0) else 1.0
        clock = Clock(speed, begins, judged, data.valid + data.test)
        if seconds is not None:
            if "training.validate_pairs" not in given:
                clock = clock.with_fewer_judged(seconds)
            if "training.r_drop" not in given and clock.steps_in(seconds) < R_DROP_PAYS * full_steps:
                clock, r_drop = replace(clock, r_drop_from=1.0), 0.0
                helps = "in so short a time more steps teach more than the same batch twice"
            if (possible := clock.steps_in(seconds)) < full_steps:
                steps, reason = possible, f"what this machine does in {duration(seconds)}"
    choose("training.r_drop", r_drop, helps)
    steps = choose("training.steps", steps, reason)
    choose("training.warmup", min(600, max(1, steps // 10)), f"a tenth of {steps:,} steps, 600 at most")
    part = min(1.0, steps / full_steps)
    reason = f"{many}" + (f", seen in {part:.0%} of the steps that would help" if part < ENOUGH else ": the fewer, the more")
    dropout = choose("model.dropout", short_dropout(_up_to(DROPOUTS, data.pairs), part), reason)
    choose("training.learning_rate", round(0.003 * (128 / width) ** 0.5, 6), f"for a width of {width}")
    choose("training.ema", round(min(0.9999, max(0.0, 1 - 16 / steps)), 5), f"a mean over a sixteenth of {steps:,} steps")
    every = -(-steps // validations(steps))
    every = choose("training.validate_every", every, f"{validations(steps)} validations")
    fewer = clock is not None and clock.judged < judged
    least = clock.judged if clock is not None and fewer else VALIDATED[1]
    choose("training.validate_pairs", least, "so that validations take a tenth of the time" if fewer else "at most")
    choose("training.checkpoint_every", min(1000, every), "at most 1,000 steps can be lost")
    patient = validations(steps) == MOST_VALIDATIONS
    choose("training.patience", PATIENCE if patient else 0, f"stop when {PATIENCE} validations in a row bring nothing better")
    below = given.get("model.decoder_layers") or layers
    summary = f"{many}: {vocabulary:,} subwords, {layers} + {below} layers of {width}, dropout {dropout:g}, {steps:,} steps"
    return Plan(tuple(choices), summary, clock.seconds_of(steps, steps // every) if clock else None, full_steps)


@dataclass(frozen=True)
class Clock:
    """How long a training takes at a measured speed."""

    speed: Speed
    r_drop_from: float  # share of the steps; 1 without R-Drop
    judged: int  # pairs of each validation
    scored: int  # pairs that are scored at the end

    def seconds_of(self, steps: int, count: int) -> float:
        """Seconds of a training of so many steps with so many validations, and of the final scores of two models."""
        step = self.r_drop_from * self.speed.step + (1 - self.r_drop_from) * self.speed.r_drop_step
        return steps * step + count * self.judged * self.speed.validation + 2 * self.scored * self.speed.scoring

    def with_fewer_judged(self, seconds: float) -> Clock:
        """With as many pairs in each validation as take a small share of these seconds, but enough to tell models apart."""
        each = VALIDATIONS_SHARE * seconds / validations(self.steps_in(seconds))
        affordable = int(each / self.speed.validation) if self.speed.validation else self.judged
        return replace(self, judged=min(self.judged, max(VALIDATED[0], affordable)))

    def steps_in(self, seconds: float) -> int:
        """The most steps that end in so many seconds, with a little to spare; at least one."""
        low, high = 1, 10**9
        while low < high:
            middle = (low + high + 1) // 2
            ends = self.seconds_of(middle, validations(middle)) <= (1 - SPARE) * seconds
            low, high = (middle, high) if ends else (low, middle - 1)
        return low


def short_dropout(dropout: float, part: float) -> float:
    """The dropout of a training that has only a part of the steps that would help: it is too short to overfit."""
    share = min(1.0, part / ENOUGH)
    return round(20 * dropout * (1 + 2 * share) / 3) / 20


def vocabulary_size(data: PairStatistics, pairs: int) -> int:
    """10,000 tokens for 29,000 pairs: with the root for fewer, the fourth root for more, as the output layer of a small model
    soon costs more than all the others; at most 32,000, and enough for every character.

    A character of another script than Latin is three bytes, which two merges put together.
    """
    least = max(500.0, 300.0 + 2 * data.distinct_characters)
    scale = pairs / MIDDLE
    return rounded(min(32_000.0, max(least, 10_000 * scale ** (0.5 if scale < 1 else 0.25))))


def shape_for(pairs: int) -> Shape:
    """The shape for so many pairs, if there is time enough."""
    return next(shape for shape in SHAPES if pairs <= shape.pairs)


def validations(steps: int) -> int:
    """How many validations a training has: 16, fewer if it is short."""
    return min(MOST_VALIDATIONS, max(1, steps // 250))


def rounded(number: float) -> int:
    """To two digits: 8,417 becomes 8,400."""
    whole = max(1, round(number))
    unit = 10 ** max(0, len(str(whole)) - 2)
    return max(1, round(whole / unit)) * unit


def _up_to(table: Mapping[int, Any], pairs: int) -> Any:
    """The value of the first row whose limit is at least so many pairs."""
    return next(value for most, value in table.items() if pairs <= most)


def _complete(shape: Shape, reason: str, given: Mapping[str, Any], choose: Any) -> tuple[int, int]:
    """Choose layers, width, width of the feed-forward network and heads; returns the first two."""
    width, factor, head_width = shape.width, shape.inner // shape.width, shape.width // shape.heads
    if (asked := given.get("model.heads")) and width % (2 * asked):  # every head needs an even width
        width = -(-width // (2 * asked)) * 2 * asked
    layers = choose("model.layers", shape.layers, reason)
    width = choose("model.d_model", width, reason)
    choose("model.d_ff", factor * width, f"{factor} times the width")
    possible = [heads for heads in range(1, max(1, width // head_width) + 1) if width % (2 * heads) == 0]
    choose("model.heads", max(possible, default=1), f"of {head_width} each")
    return layers or MEASURED["layers"], width or MEASURED["d_model"]
