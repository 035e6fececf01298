"""Checks of a model's settings that every kind of model shares; the first wrong one is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.errors import UsageError

SHARES = ("dropout", "attention_dropout")


def check_settings(config: Any, counts: Sequence[str], choices: Mapping[str, Sequence[str]]) -> None:
    """`counts` are the settings that must be at least 1 (None passes), `choices` those that must be one of some words;
    what is dropped out must be a share below 1."""
    for name in counts:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    for name in SHARES:
        value = getattr(config, name, 0.0)
        if not 0.0 <= value < 1.0:
            raise UsageError(f"{name} must be at least 0 and below 1, not {value}")
    for name, allowed in choices.items():
        value = getattr(config, name)
        if value not in allowed:
            raise UsageError(f"{name} must be one of {', '.join(allowed)}, not '{value}'")


def check_heads(d_model: int, heads: int) -> None:
    """Every head gets an equal part of d_model."""
    if d_model % heads:
        raise UsageError(f"d_model {d_model} is not divisible by heads {heads}")
