"""Settings that a recipe with `fit = true` leaves open, to be chosen from the data: whatever nobody has given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heedful.models.presets import PRESETS, Preset
from heedful.settings import Values

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe

SHAPE = ("layers", "d_model", "d_ff", "heads")
FITTED = {
    "tokenizer": ("size",),
    "model": (*SHAPE, "dropout"),
    "training": (
        "steps", "batch_tokens", "learning_rate", "warmup", "ema", "r_drop", "validate_every", "validate_pairs",
        "checkpoint_every", "patience",
    ),
}  # fmt: skip


def open_settings(given: Mapping[str, Mapping[str, object]], kind: str, preset: Preset | None) -> tuple[str, ...]:
    """`section.key` of what is left open: `given` by nobody, nor decided by a `preset` that is named on the command line, by
    the model's `kind` or by a pre-trained model."""
    pretrained = given["model"].get("pretrained")
    closed = {"tokenizer.size"} if given["tokenizer"].get("file") or pretrained else set()
    if kind != "seq2seq":
        closed |= {f"model.{key}" for key in FITTED["model"]}
    elif pretrained:
        closed |= {f"model.{key}" for key in SHAPE}
    if preset is not None:
        closed |= {f"model.{key}" for key in preset.model} | {f"training.{key}" for key in preset.training}
    wanted = [(section, key) for section, keys in FITTED.items() for key in keys if key not in given[section]]
    return tuple(name for section, key in wanted if (name := f"{section}.{key}") not in closed)


def is_half_a_shape(left_open: Sequence[str], model: Mapping[str, object]) -> bool:
    """Whether some settings of the shape are given and others open, so that they fit together only once all are chosen."""
    return any(f"model.{key}" in left_open for key in SHAPE) and any(key in model for key in SHAPE)


def with_values(recipe: Recipe, values: Mapping[str, object]) -> Recipe:
    """The recipe with some of its open settings filled in; the others stay open."""
    filled: dict[str, Values] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        filled.setdefault(section, {})[key] = value
    return dataclasses.replace(
        recipe,
        tokenizer=dataclasses.replace(recipe.tokenizer, **filled.get("tokenizer", {})),
        model={**recipe.model, **filled.get("model", {})},
        training=dataclasses.replace(recipe.training, **filled.get("training", {})),
        open=tuple(name for name in recipe.open if name not in values),
    )


def origin_of(recipe: Recipe) -> str:
    """What the model begins as: a pre-trained model, a preset, or a shape that is no preset's."""
    name, pretrained = recipe.model["preset"], recipe.model["pretrained"]
    changed = [key for key, value in PRESETS[name].model.items() if key in SHAPE and recipe.model.get(key) != value]
    if pretrained or not changed:
        return str(pretrained or name)
    return f"{name}, {', '.join(f'{key} {recipe.model[key]}' for key in changed)}"
