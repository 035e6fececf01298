"""A check of settings that several kinds of model share."""

from __future__ import annotations

from heedful.errors import UsageError


def check_heads(d_model: int, heads: int) -> None:
    """Every head gets an equal part of d_model."""
    if d_model % heads:
        raise UsageError(f"d_model {d_model} is not divisible by heads {heads}")
