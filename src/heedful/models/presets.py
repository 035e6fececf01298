"""Named sizes: every row of the paper's Table 3, `big`, and `tiny` (SPEC 10).

A preset holds what differs from base. Model settings and training settings are kept apart, because a row such as
"label smoothing 0.2" is about training alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heedful.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """One named size: settings of the model, settings of its training, and where it comes from."""

    about: str
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    parameters: float | None = None  # in millions, the paper's column, with its vocabulary of about 40,800


def _heads(heads: int) -> Preset:
    width = 512 // heads
    return Preset(f"Table 3 (A): {heads} heads of {width}", {"heads": heads, "d_k": width, "d_v": width})


PRESETS: dict[str, Preset] = {
    "base": Preset("Table 3: the base model", {}, {"steps": 100_000}, 65),
    "a-heads-1": _heads(1),
    "a-heads-4": _heads(4),
    "a-heads-16": _heads(16),
    "a-heads-32": _heads(32),
    "b-dk-16": Preset("Table 3 (B): keys of 16", {"d_k": 16, "d_v": 64}, {}, 58),
    "b-dk-32": Preset("Table 3 (B): keys of 32", {"d_k": 32, "d_v": 64}, {}, 60),
    "c-layers-2": Preset("Table 3 (C): 2 layers", {"layers": 2}, {}, 36),
    "c-layers-4": Preset("Table 3 (C): 4 layers", {"layers": 4}, {}, 50),
    "c-layers-8": Preset("Table 3 (C): 8 layers", {"layers": 8}, {}, 80),
    "c-width-256": Preset("Table 3 (C): 256 wide", {"d_model": 256, "d_k": 32, "d_v": 32}, {}, 28),
    "c-width-1024": Preset("Table 3 (C): 1024 wide", {"d_model": 1024, "d_k": 128, "d_v": 128}, {}, 168),
    "c-ff-1024": Preset("Table 3 (C): feed-forward 1024", {"d_ff": 1024}, {}, 53),
    "c-ff-4096": Preset("Table 3 (C): feed-forward 4096", {"d_ff": 4096}, {}, 90),
    "d-dropout-0.0": Preset("Table 3 (D): no dropout", {"dropout": 0.0}),
    "d-dropout-0.2": Preset("Table 3 (D): dropout 0.2", {"dropout": 0.2}),
    "d-smoothing-0.0": Preset("Table 3 (D): no label smoothing", {}, {"label_smoothing": 0.0}),
    "d-smoothing-0.2": Preset("Table 3 (D): label smoothing 0.2", {}, {"label_smoothing": 0.2}),
    "e-learned": Preset("Table 3 (E): learned positions", {"positions": "learned"}),
    "big": Preset(
        "Table 3: the big model",
        {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3},
        {"steps": 300_000, "average": 20},
        213,
    ),
    "tiny": Preset("the small-data standard", {"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4}),
}


def find_preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise UsageError(f"there is no preset '{name}'{did_you_mean(name, PRESETS)}")
    return PRESETS[name]
