"""Turns plain text into training pairs: helper models are trained first, inside the run directory, and translate it.

A reverse model writes the source of each line in the target's language (back-translation); a first model in the same
direction writes the target of each line in the source's language (self-training). Every step is done once: the same command
continues after an interruption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from heedful.data.drops import Drops
from heedful.data.lines import read_lines
from heedful.data.monolingual import choose_lines, chosen_lines, translate_lines
from heedful.data.prepare_pairs import files_of
from heedful.data.statistics import CHARACTERS_PER_TOKEN, pair_statistics
from heedful.errors import UsageError
from heedful.jobs.data_settings import PairSettings
from heedful.pipelines.load import load_pipeline
from heedful.plan.plan import plan_pairs
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.device import pick_device
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Screen


@dataclass(frozen=True)
class Helper:
    """A model that is trained first."""

    setting: str  # the data setting that names the plain text it translates
    folder: str  # in the run directory
    reverse: bool


ABOUT = {True: "of the other direction", False: "of the same direction"}
HELPERS = (Helper("monolingual_target", "reverse", True), Helper("monolingual_source", "first", False))
STEP_SHARE = 0.5  # of a helper, as a share of the recipe's steps, if those are given
SAMPLED_LINES = 5000  # lines read to recognise the language of a plain text
SHARED_WORDS = 20  # words that may be the same in both languages
PASSES = 8  # over the pairs made of plain text, at least; a rule of thumb
TRANSLATION_SHARE = 1 / 6  # of the given time
Train = Callable[[Recipe, Path, float | None], object]


def train_helpers(
    recipe: Recipe,
    run: Path,
    screen: Screen,
    seconds: float | None,
    train: Train,
    on_first_rank: Callable[[Callable[[], None]], None] = lambda work: work(),
) -> float | None:
    """Train the helpers that a recipe needs and let them translate; returns the seconds that remain.

    `train` trains a recipe in a run directory within some seconds; `on_first_rank` runs something on rank 0 only.
    """
    started = time.monotonic()
    helpers = helpers_of(recipe)
    for helper in helpers:
        check_plain_text(recipe, helper)  # before hours of training
    share = 1 / (2 if recipe.data.both else 3) / len(helpers) if helpers else 0.0
    for helper in helpers:
        screen.say(f"before the model itself, one {ABOUT[helper.reverse]} in {run / helper.folder}")
        train(helper_recipe(recipe, helper), run / helper.folder, seconds and share * seconds)
        limit = seconds and TRANSLATION_SHARE * seconds / len(helpers)
        left = seconds and seconds - (time.monotonic() - started) - (limit or 0)
        on_first_rank(partial(translate_plain_text, recipe, run, helper, screen, limit, left))
    return None if seconds is None else max(1.0, seconds - (time.monotonic() - started))


def check_plain_text(recipe: Recipe, helper: Helper) -> None:
    """Raise an error if the plain text cannot be read, or its words show that it is in the other language of the pairs."""
    path, training = getattr(recipe.data, helper.setting), files_of(recipe.data)["train"]
    if not path or training is None:
        return
    plain = {word for line in islice(read_lines(Path(path)), SAMPLED_LINES) for word in line.split()}
    sides: tuple[set[str], set[str]] = set(), set()
    for pair in islice(training.read(Drops()), SAMPLED_LINES):
        for words, text in zip(sides, pair, strict=True):
            words.update(text.split())
    own, other = (len(plain & sides[side]) for side in ((1, 0) if helper.reverse else (0, 1)))
    if other > 2 * own + SHARED_WORDS:
        wanted = next(one.setting for one in HELPERS if one is not helper)
        raise UsageError(
            f"data.{helper.setting}={path} has {other:,} words of the other side of the pairs and only {own:,} of its own; "
            f"is it data.{wanted}, or are data.source and data.target swapped?"
        )


def helpers_of(recipe: Recipe) -> list[Helper]:
    """The helper models that a recipe needs, in the order of their training."""
    data = recipe.data
    if not isinstance(data, PairSettings):
        return []
    return [one for one in HELPERS if getattr(data, one.setting) or (data.both and one.reverse)]


def helper_recipe(recipe: Recipe, helper: Helper) -> Recipe:
    """The recipe of a helper model. With `both`, the other direction is trained as long as the first."""
    data = replace(recipe.data, both=False, monolingual_target="", monolingual_source="")
    training = recipe.training
    if not recipe.data.both:
        data = replace(data, test_source="", test_target="")
        if "training.steps" not in recipe.open:
            training = replace(training, steps=max(1, round(STEP_SHARE * training.steps)))
    if helper.reverse:
        data = replace(data, reverse=not data.reverse)
        if recipe.model["pretrained"]:  # it has the direction of the recipe's own model
            fresh = load_recipe("translation")
            left_open = [name for name in fresh.open if name.startswith(("model.", "tokenizer."))]
            left_open = list(dict.fromkeys([*recipe.open, *left_open]))
            recipe = replace(recipe, model=fresh.model, tokenizer=fresh.tokenizer, open=tuple(left_open))
    return replace(recipe, name=f"{recipe.name}-{helper.folder}", data=data, training=training)


def without_helpers(recipe: Recipe, seconds: float | None, screen: Screen) -> tuple[Recipe, float | None]:
    """The recipe of the model itself and the time left for it, for planning; the helpers are only announced."""
    helpers = helpers_of(recipe)
    for helper in helpers:
        check_plain_text(recipe, helper)
        text = getattr(recipe.data, helper.setting)
        then = f", which translates {text}; the pairs made of it are not counted here" if text else ""
        screen.say(f"before it, a model {ABOUT[helper.reverse]} is trained{then}")
    data = replace(recipe.data, both=False, monolingual_target="", monolingual_source="") if helpers else recipe.data
    left = 1 / 2 if helpers else 1.0
    return replace(recipe, data=data), seconds and left * seconds


def translate_plain_text(
    recipe: Recipe, run: Path, helper: Helper, screen: Screen, seconds: float | None, left: float | None
) -> None:
    """Let a trained helper translate its plain text for at most `seconds`: as many lines as training can repeat often enough
    in the `left` seconds after that."""
    plain = getattr(recipe.data, helper.setting)
    if not plain:
        return
    side = 1 if helper.reverse else 0  # of the pairs, in the language of the plain text
    splits = [files for files in files_of(recipe.data).values() if files]
    known = [[pair[side] for pair in files.read(Drops())] for files in splits]
    folder = run / helper.folder
    choose_lines(Path(plain), (text for texts in known for text in texts), len(known[0]), folder / "plain", screen)
    lines = chosen_lines(folder / "plain")
    often = passes_over(recipe, folder, lines, left)
    most = None
    if left is not None and (steps := steps_in(folder, left)) < (needed := steps_for_pairs(recipe)):
        most = 0
        told = f"plain text: left out; about {steps:,} steps fit into the remaining time, and the pairs alone need {needed:,}"
        screen.say(f"{told}. Give more --time to use it")
    elif often is not None and often < PASSES:
        told = f"plain text: its {len(lines):,} lines fit into training {often:.1f} times; fewer than {PASSES} help little"
        if left is None:
            screen.say(f"{told}; raise training.steps or give less text")
        else:
            most = max(1, int(len(lines) * often / PASSES))
            screen.say(f"{told}; {most:,} are used. Give more --time to use more")
    translator = load_pipeline(folder / "best", pick_device(recipe.training.device))

    def translate(texts: Sequence[str]) -> list[str]:
        found: list[str] = translator.translate(list(texts), beam=1)
        return found

    translate_lines(folder / "plain", translate, helper.reverse, folder / "translations", screen, seconds, most)
    screen.close()


def passes_over(recipe: Recipe, helper: Path, lines: Sequence[str], left: float | None) -> float | None:
    """How many passes training can make over pairs made of these lines and as many true ones: in the seconds that are left,
    at the speed of a helper's run, or in the steps of the recipe; None if neither is limited."""
    if left is not None:
        speeds = [row["tokens"] / row["seconds"] for row in read_metrics(helper / "metrics.jsonl") if row["kind"] == "train"]
        if not speeds:
            return None
        tokens = left * speeds[-1]
    elif "training.steps" in recipe.open:
        return None
    else:
        tokens = recipe.training.steps * recipe.training.batch_tokens * recipe.training.accumulate
    return float(tokens / (2 * sum(len(line) / CHARACTERS_PER_TOKEN + 1 for line in lines)))


def steps_in(helper: Path, seconds: float) -> int:
    """The steps that fit into some seconds, at the speed of a helper's run."""
    rows = [row for row in read_metrics(helper / "metrics.jsonl") if row["kind"] == "train"]
    return int(seconds * rows[-1]["step"] / rows[-1]["seconds"]) if rows else 0


def steps_for_pairs(recipe: Recipe) -> int:
    """The steps that would be planned for the pairs alone, without a time limit."""
    given = {name: value for name, value in recipe.flat().items() if name not in recipe.open}
    return plan_pairs(pair_statistics(recipe.data, recipe.training.seed), given).full_steps
