"""Plans: valid for any amount of text and any time, what was measured in the middle, and monotone where they must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.data.statistics import PairStatistics
from heedful.plan.plan import SHAPES, Clock, Plan, Speed, plan_pairs
from heedful.recipes import Recipe, load_recipe
from heedful.recipes.open_settings import with_values

MULTI30K = PairStatistics(29_000, (1_772_238, 2_046_956), (345_020, 322_383), tokens=469_826, valid=1014, test=1000)


def text_of(pairs: int, length: int = 60) -> PairStatistics:
    """That many pairs of so many characters on each side."""
    return PairStatistics(pairs, (pairs * length,) * 2, (pairs * length // 5,) * 2, valid=min(1000, pairs // 10), test=100)


def planned(plan: Plan, *overrides: str) -> Recipe:
    recipe = load_recipe("translation", overrides)
    return with_values(recipe, {name: value for name, value in plan.values().items() if name in recipe.open})


def decided(*overrides: str) -> dict[str, Any]:
    recipe = load_recipe("translation", overrides)
    return {name: value for name, value in recipe.flat().items() if name not in recipe.open}


def test_the_middle_of_the_scale_is_the_measured_recipe() -> None:
    measured = load_recipe("multi30k").flat()
    plan = plan_pairs(MULTI30K, decided())
    assert "29,000 pairs: 10,000 subwords, 4 + 4 layers of 128, dropout 0.3, 16,000 steps" in plan.summary
    changed = {name for name, value in planned(plan).flat().items() if value != measured[name]}
    assert changed == {"training.patience"}


@settings(deadline=None, max_examples=50)
@given(
    pairs=st.integers(0, 10**8),
    length=st.integers(1, 2000),
    seconds=st.none() | st.floats(1, 10**6),
    step=st.floats(1e-4, 100),
)
@example(pairs=2, length=1, seconds=1.0, step=100.0)
@example(pairs=10**8, length=2000, seconds=None, step=1.0)
@example(pairs=0, length=1, seconds=None, step=1.0)
def test_any_text_and_any_time_give_a_valid_recipe(pairs: int, length: int, seconds: float | None, step: float) -> None:
    plan = plan_pairs(text_of(pairs, length), decided(), seconds, Speed(1.0, step, 2 * step, step / 50, step / 20))
    recipe = planned(plan)
    assert not recipe.open
    again = load_recipe("translation", [f"{choice.setting}={choice.value}" for choice in plan.choices])
    assert again.flat() == recipe.flat()
    assert recipe.training.warmup <= recipe.training.steps
    assert recipe.training.validate_every <= recipe.training.steps
    assert -(-recipe.training.steps // recipe.training.validate_every) <= 16, "the last validation is the one at the end"
    assert all(choice.reason for choice in plan.choices)


@settings(deadline=None, max_examples=40)
@given(fewer=st.integers(2, 10**7), more=st.integers(2, 10**7))
def test_more_pairs_mean_a_larger_model_and_vocabulary_and_less_dropout(fewer: int, more: int) -> None:
    small, large = (plan_pairs(text_of(pairs), decided()).values() for pairs in sorted((fewer, more)))
    for name in ("tokenizer.size", "model.layers", "model.d_model", "training.batch_tokens"):
        assert small[name] <= large[name], name
    seen = [values["training.steps"] * values["training.batch_tokens"] for values in (small, large)]
    assert seen[0] <= 1.02 * seen[1], "but for rounding"
    assert small["model.dropout"] >= large["model.dropout"]


@settings(deadline=None, max_examples=40)
@given(pairs=st.integers(2, 10**6), seconds=st.floats(10, 10**5), step=st.floats(1e-3, 1))
def test_more_time_never_means_less_training_and_a_plan_ends_in_its_time(pairs: int, seconds: float, step: float) -> None:
    speed = Speed(1.0, step, 1.8 * step, step / 100, step / 50)
    short, long = (plan_pairs(text_of(pairs), decided(), time, speed) for time in (seconds, 2 * seconds))
    work = [plan.values()["training.steps"] * (1 + 0.6 * 0.8 * plan.values()["training.r_drop"]) for plan in (short, long)]
    assert work[0] <= 1.01 * work[1], "a step with R-Drop counts for more"
    assert long.values()["training.steps"] <= long.full_steps
    text = text_of(pairs)
    least = Clock(speed, 1.0, min(text.valid, short.values()["training.validate_pairs"]), text.valid + text.test).seconds_of(1, 1)
    assert short.seconds is not None
    assert short.seconds <= max(seconds, least)


def test_a_short_time_buys_steps_not_r_drop_and_few_validation_pairs() -> None:
    speed = Speed(1.0, 0.1, 0.18, 0.02, 0.03)
    short, long = (plan_pairs(MULTI30K, decided(), seconds, speed).values() for seconds in (120.0, 7200.0))
    assert (short["training.r_drop"], long["training.r_drop"]) == (0.0, 1.0)
    assert short["training.validate_pairs"] < 1000 == long["training.validate_pairs"]
    kept = plan_pairs(MULTI30K, decided("training.r_drop=0.5", "training.validate_pairs=700"), 120.0, speed).values()
    assert not {"training.r_drop", "training.validate_pairs"} & set(kept)


def test_a_model_is_as_large_as_pairs_and_time_allow() -> None:
    largest = [plan_pairs(text_of(10**6), decided(), largest=shape).values() for shape in (None, *SHAPES)]
    assert [values["model.d_model"] for values in largest] == [256, 128, 256, 256, 256, 256]
    assert [values["model.layers"] for values in largest] == [6, 4, 4, 6, 6, 6]
    assert largest[1]["tokenizer.size"] < largest[2]["tokenizer.size"] < largest[0]["tokenizer.size"] <= 32_000
    assert largest[1]["training.batch_tokens"] == 1024
    assert plan_pairs(text_of(1000), decided(), largest=SHAPES[-1]).values()["model.d_model"] == 128


def test_a_vocabulary_has_room_for_every_character() -> None:
    japanese = replace(text_of(500), distinct_characters=2000)
    assert plan_pairs(japanese, decided()).values()["tokenizer.size"] >= 4000
    assert plan_pairs(text_of(500), decided()).values()["tokenizer.size"] < 2000


@pytest.mark.parametrize("steps", [1, 5, 300, 100_000])
def test_the_rest_adapts_to_steps_that_are_given(steps: int) -> None:
    plan = plan_pairs(MULTI30K, decided(f"training.steps={steps}"))
    values = plan.values()
    assert "training.steps" not in values
    assert 1 <= values["training.warmup"] <= max(1, steps // 10)
    assert values["training.validate_every"] <= steps


@pytest.mark.parametrize(
    "override", ["model.d_model=96", "model.d_model=34", "model.heads=3", "model.heads=16", "model.layers=2", "model.d_ff=50"]
)
def test_a_shape_that_is_given_in_part_is_completed(override: str) -> None:
    recipe = planned(plan_pairs(MULTI30K, decided(override)), override)
    name, _, value = override.partition("=")
    assert recipe.flat()[name] == int(value)
    load_recipe("translation", [f"{key}={value}" for key, value in recipe.flat().items() if key.startswith("model.") and value])
