"""Learning rate by step (Section 5.3)."""

from __future__ import annotations

import math


def learning_rate(step: int, schedule: str, peak: float, warmup: int, steps: int, d_model: int) -> float:
    """The rate of step 1, 2, …: it rises linearly to `peak` in `warmup` steps, then follows the schedule.

    inverse-sqrt: peak · √(warmup / step). With the paper's peak, D^-0.5 · warmup^-0.5 (given as 0), that is the paper's
    D^-0.5 · min(step^-0.5, step · warmup^-1.5). linear: down to zero after the last step. constant: stays.
    """
    peak = peak or (d_model * warmup) ** -0.5
    if step < warmup:
        return peak * step / warmup
    if schedule == "inverse-sqrt":
        return peak * math.sqrt(warmup / step)
    if schedule == "linear":
        return peak * max(0, steps + 1 - step) / (steps + 1 - warmup) if steps >= warmup else peak  # trials may take more steps
    return peak
