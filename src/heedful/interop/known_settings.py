"""Settings that prevent an export, and what to train with instead.

A setting that the exporters do not know yet is an error when it is switched on; it is never ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from heedful.errors import HeedfulError
from heedful.models.attention_settings import AttentionFields
from heedful.settings import Json, Values

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

KNOWN = {
    "Seq2SeqConfig": (
        "source_vocab target_vocab layers decoder_layers d_model d_ff heads d_k d_v dropout attention_dropout activation norm "
        "positions max_positions max_distance tie scale_embedding embedding_start reads"
    ),
    "GPTConfig": (
        "vocab layers d_model d_ff heads context dropout attention_dropout activation norm epsilon positions max_distance tie"
    ),
    "BertConfig": (
        "vocab layers d_model d_ff heads max_positions segments dropout attention_dropout activation epsilon head classes pooling"
    ),
    "ViTConfig": (
        "classes image_size channels patch layers d_model d_ff heads dropout attention_dropout activation epsilon pooling"
    ),
}
# These do not matter for a trained model with full attention; other kinds of attention are refused.
IGNORED = {one.name for one in dataclasses.fields(AttentionFields)} - {"attention_kind"} | {"init"}


class Obstacle(NamedTuple):
    """What another library cannot express."""

    what: str
    train_with: str = ""  # the setting that another library can express


def only(config: ModelConfig, **expected: Json) -> list[Obstacle]:
    """The settings whose values differ from those another library supports."""
    return [
        obstacle(config, name, value, f"only {value!r}") for name, value in expected.items() if getattr(config, name) != value
    ]


def obstacle(config: ModelConfig, name: str, instead: Json, why: str) -> Obstacle:
    """A setting that cannot be expressed, why, and the value to train with instead."""
    written = str(instead).lower() if isinstance(instead, bool) else str(instead)
    return Obstacle(f"{name} = {getattr(config, name)!r} ({why})", f"model.{name}={written}")


def sentence(library: str, found: Sequence[Obstacle]) -> str:
    """Every obstacle, and what to train with to avoid them."""
    said = f"this model has settings that {library} cannot express: {', '.join(one.what for one in found)}"
    instead = [one.train_with for one in found]
    return f"{said}; train with {' '.join(instead)}" if all(instead) else said


def refuse(library: str, found: Sequence[Obstacle]) -> None:
    """Raise an error that lists every obstacle, if there are any."""
    if found:
        raise HeedfulError(sentence(library, found))


def unknown_settings(config: ModelConfig) -> list[Obstacle]:
    """Settings that no export knows, where they are not at their defaults."""
    known = KNOWN.get(type(config).__name__, "").split()
    new = [field for field in dataclasses.fields(config) if known and field.name not in (*known, *IGNORED)]
    defaults: Values = {field.name: field.default for field in new}
    return only(config, **defaults)
