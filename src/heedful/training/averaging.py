"""Averages of weights: over the last checkpoints (Section 6.1: 5 for the base models, 20 for the big), and running (EMA)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from torch import Tensor

from heedful.training.checkpoint import DamagedCheckpoint, load_checkpoint


def mean_weights(paths: Iterable[Path], report: Callable[[str], None]) -> tuple[Tensor | None, int]:
    """The mean weights of these checkpoints, and how many were averaged; damaged ones are reported and left out."""
    total: Tensor | None = None
    count = 0
    for path in paths:
        try:
            weights = load_checkpoint(path)[0]["weights"].double()
        except DamagedCheckpoint as error:
            report(f"{error}; it is left out of the average")
            continue
        total = weights if total is None else total + weights
        count += 1
    return (None if total is None else (total / count).float()), count


def running_share(decay: float, updates: int) -> float:
    """The share of the newest weights in the running mean (EMA); larger at first, so that initial weights are soon forgotten."""
    return 1.0 - min(decay, updates / (updates + 9))
