"""Plain text made into pairs before a translator is trained: helper models, in its run directory, translate it.

A reverse model writes the source of each line in the target's language (back-translation); a first model in the same
direction writes the target of each line in the source's language (self-training). Every step is done once: the same command
continues after an interruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heedful.data.drops import Drops
from heedful.data.monolingual import choose_lines, translate_lines
from heedful.data.prepare_pairs import files_of
from heedful.jobs.data_settings import PairSettings
from heedful.pipelines.load import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.device import pick_device
from heedful.runtime.screen import Screen


@dataclass(frozen=True)
class Helper:
    """A model that is trained first."""

    setting: str  # of the data section, which names the plain text that it translates
    folder: str  # in the run directory
    reverse: bool


HELPERS = (Helper("monolingual_target", "reverse", True), Helper("monolingual_source", "first", False))
STEPS = 0.5  # of a helper's training, as a share of the recipe's


def helpers_of(recipe: Recipe) -> list[Helper]:
    """The helper models that a recipe needs, in the order of their training."""
    data = recipe.data
    if not isinstance(data, PairSettings):
        return []
    return [one for one in HELPERS if getattr(data, one.setting) or (data.both and one.reverse)]


def helper_recipe(recipe: Recipe, helper: Helper) -> Recipe:
    """The recipe of a helper model. The other one of two directions is trained as long as the first."""
    data = replace(recipe.data, both=False, monolingual_target="", monolingual_source="")
    model, training = recipe.model, recipe.training
    if helper.reverse:
        data = replace(data, reverse=not data.reverse)
        if model["pretrained"]:  # it has the direction of the recipe's own model
            model = load_recipe("translation").model
    if not recipe.data.both:
        data = replace(data, test_source="", test_target="")
        training = replace(training, steps=max(1, round(STEPS * training.steps)))
    tokenizer = replace(recipe.tokenizer, extend=0) if not model["pretrained"] else recipe.tokenizer
    return replace(recipe, name=f"{recipe.name}-{helper.folder}", data=data, tokenizer=tokenizer, model=model, training=training)


def translate_plain_text(recipe: Recipe, run: Path, helper: Helper, screen: Screen) -> None:
    """Let a trained helper translate the plain text it is for."""
    plain = getattr(recipe.data, helper.setting)
    if not plain:
        return
    side = 1 if helper.reverse else 0  # of the pairs, in which the text is
    splits = [files for files in files_of(recipe.data).values() if files]
    known = [[pair[side] for pair in files.read(Drops())] for files in splits]
    folder = run / helper.folder
    choose_lines(Path(plain), (text for texts in known for text in texts), len(known[0]), folder / "plain", screen)
    translator = load_pipeline(folder / "best", pick_device(recipe.training.device))

    def translate(texts: Sequence[str]) -> list[str]:
        found: list[str] = translator.translate(list(texts), beam=1)
        return found

    translate_lines(folder / "plain", translate, helper.reverse, folder / "translations", screen)
    screen.close()
