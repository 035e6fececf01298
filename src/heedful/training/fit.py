"""Chooses what a recipe leaves open: reads how much data there is, and plans with the speed that a trial measures."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from heedful.data.monolingual import SyntheticPairs
from heedful.data.prepare_pairs import load_prepared
from heedful.data.statistics import pair_statistics
from heedful.plan.advice import advice
from heedful.plan.plan import LEAST_STEPS, Plan, Shape, Speed, plan_pairs
from heedful.recipes import Recipe
from heedful.recipes.open_settings import with_values
from heedful.runtime.screen import Screen, duration
from heedful.tasks.task import pretrained_config
from heedful.training.shape_trial import largest_shape, needs_trial
from heedful.training.worker_trial import SECONDS

LONGEST_TRIAL = 15.0  # seconds


class Fit:
    """The open settings of a recipe: what they depend on, and the plan that follows from it."""

    def __init__(self, recipe: Recipe, seconds: float | None = None, synthetic: SyntheticPairs | None = None) -> None:
        self.recipe, self.seconds = recipe, seconds
        self.started = time.monotonic()
        self.given = {name: value for name, value in recipe.flat().items() if name not in recipe.open}
        if recipe.model["pretrained"]:
            self.given |= {f"model.{key}": value for key, value in pretrained_config(recipe)["model"].items()}
        self.data = pair_statistics(recipe.data, recipe.training.seed, synthetic)
        self.largest: Shape | None = None  # of the model, where the time decides it

    def look_at_machine(self, screen: Screen) -> None:
        """Find out how large a model can be trained in the given time, where that is not clear."""
        if self.seconds is not None and needs_trial(self.recipe, self.data):
            self.largest = largest_shape(self.recipe, self.data, self.seconds, screen)

    @property
    def trial_seconds(self) -> float | None:
        """How long to measure the speed; None if it decides nothing."""
        if self.seconds is not None:
            return min(LONGEST_TRIAL, max(SECONDS, self.seconds / 100))
        return SECONDS if "training.steps" in self.recipe.open else None

    def plan(self, speed: Speed | None = None) -> Plan:
        """What is left of the given time is planned for."""
        left = None if self.seconds is None else max(1.0, self.seconds - (time.monotonic() - self.started))
        return plan_pairs(self.data, self.given, left, speed, self.largest)

    def filled(self, plan: Plan) -> Recipe:
        """The recipe with the values of a plan."""
        return with_values(self.recipe, {name: value for name, value in plan.values().items() if name in self.recipe.open})

    def look_at_prepared(self, folder: Path) -> None:
        """Note how many tokens there are, now that the data is prepared."""
        prepared = load_prepared(folder)
        sides = prepared.train.source.lengths, prepared.train.target.lengths
        tokens = int((np.maximum(*sides) + 1).sum(dtype=np.int64))  # + 1 for the begin or end token
        if "tokenizer.size" in self.given:  # what was asked for is not always what there is
            self.given["tokenizer.size"] = prepared.target_tokenizer.size
        self.data = replace(self.data, tokens=tokens, valid=len(prepared.valid), test=len(prepared.test))

    def describe(self, plan: Plan, screen: Screen) -> None:
        """Say what is planned, and how long it takes."""
        screen.say(f"plan: {plan.summary}")
        if plan.seconds is not None:
            limit = ", less if it stops helping earlier"
            if self.seconds is not None:
                enough = "; more steps would bring little" if plan.values().get("training.steps") == plan.full_steps else ""
                limit = f" of the {duration(self.seconds)} given{enough}"
            screen.say(f"plan: about {duration(plan.seconds)} from here{limit}")
        if self.seconds is not None and plan.values().get("training.steps", LEAST_STEPS) < LEAST_STEPS:
            screen.say("note: so few steps teach little; give more time")
        for line in advice(self.data.pairs, self.given):
            screen.say(f"note: {line}")
