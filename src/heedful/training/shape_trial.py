"""The largest model of which enough can be trained in a given time, measured on a few thousand pairs before all are prepared."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

from heedful.data.drops import Drops
from heedful.data.prepare_pairs import training_files
from heedful.data.statistics import PairStatistics, count_pairs
from heedful.jobs.registry import JOBS
from heedful.plan.plan import SHAPES, Shape, plan_pairs, shape_for, vocabulary_size
from heedful.recipes import Recipe
from heedful.recipes.open_settings import SHAPE, with_values
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Screen, Silence
from heedful.training.worker_trial import measure_speed

PAIRS = 2000  # that are trained on
SECONDS = 1.0  # for each shape


def needs_trial(recipe: Recipe, data: PairStatistics) -> bool:
    """Whether the time may decide the shape: the smallest one needs no measurement."""
    return shape_for(data.pairs) is not SHAPES[0] and all(f"model.{key}" in recipe.open for key in SHAPE)


def largest_shape(recipe: Recipe, data: PairStatistics, seconds: float, screen: Screen) -> Shape:
    """The largest shape, of those for at most so many pairs, that reads enough tokens in some seconds of training."""
    chosen, read = SHAPES[0], float("inf")
    with tempfile.TemporaryDirectory(prefix="heedful-") as folder:
        sample, few = sample_recipe(recipe, Path(folder) / "sample.jsonl")
        for shape in SHAPES[: SHAPES.index(shape_for(data.pairs)) + 1]:
            if read < shape.tokens:  # a larger model is never faster
                break
            rate = tokens_per_second(sample, few, data, shape, Path(folder))
            read = rate * seconds
            screen.say(f"trial: {shape.layers} + {shape.layers} layers of {shape.width}: about {rate:,.0f} tokens/s")
            if shape is SHAPES[0] or read >= shape.tokens:
                chosen = shape
    screen.close()
    return chosen


def sample_recipe(recipe: Recipe, path: Path) -> tuple[Recipe, PairStatistics]:
    """The recipe with the first pairs alone, written to a file, and their statistics."""
    pairs = list(islice(training_files(recipe.data).read(Drops()), PAIRS))
    lines = (json.dumps({"source": source, "target": target}) for source, target in pairs)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    own = {f"{split}{side}": "" for split in ("", "valid_", "test_", "monolingual_") for side in ("source", "target")}
    data = replace(recipe.data, **{**own, "source": str(path)}, reverse=False, both=False)
    return replace(recipe, data=data), count_pairs(pairs)


def tokens_per_second(sample: Recipe, few: PairStatistics, data: PairStatistics, shape: Shape, folder: Path) -> float:
    """How fast a model of this shape trains, with the vocabulary that all the pairs would have."""
    given = {name: value for name, value in sample.flat().items() if name not in sample.open}
    own = {"model.layers": shape.layers, "model.d_model": shape.width, "model.d_ff": shape.inner, "model.heads": shape.heads}
    plan = plan_pairs(few, {**given, **own, "training.r_drop": 0.0})
    recipe = with_values(sample, {**own, "training.r_drop": 0.0})
    recipe = with_values(recipe, {name: value for name, value in plan.values().items() if name in recipe.open})
    recipe = replace(recipe, training=replace(recipe.training, workers=1, shard=False))
    JOBS[recipe.task].task_class.prepare(recipe, folder / "data", Silence())
    speed = measure_speed(recipe, folder, Processes(), SECONDS)
    output = [shape.width * vocabulary_size(of, min(of.pairs, shape.pairs)) for of in (few, data)]
    return speed.rate * (shape.parameters + output[0]) / (shape.parameters + output[1])
