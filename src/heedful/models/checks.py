"""Checks of settings that several kinds of model share."""

from __future__ import annotations

from heedful.errors import UsageError
from heedful.nn.positions import PositionKind


def check_heads(d_model: int, heads: int) -> None:
    """Every head gets an equal part of d_model."""
    if d_model % heads:
        raise UsageError(f"d_model {d_model} is not divisible by heads {heads}")


def check_rotary(positions: PositionKind, d_k: int) -> None:
    """Rotary positions rotate pairs of features."""
    if positions == "rotary" and d_k % 2:
        raise UsageError(f"rotary positions rotate pairs of features: d_k {d_k} must be even")


def check_reach(longest: int | None, length: int, name: str) -> None:
    """Raise an error if a sequence is longer than the attention has parameters for; `name` is the setting that decides it."""
    if longest is not None and length > longest:
        raise UsageError(
            f"an input of {length:,} positions is too long: attention_kind=linformer has parameters for {longest:,} ({name})"
        )
