"""Statistics of the steps since the last report: mean loss, speed, and time spent waiting for data."""

from __future__ import annotations

import math

from heedful.training.checkpoint import Progress


class StepWindow:
    """Sums over the steps since the last report; the time of validations and checkpoints does not count."""

    def __init__(self, progress: Progress) -> None:
        self.begin(progress, 0.0)

    def begin(self, progress: Progress, waited: float) -> None:
        self.first, self.started, self.waited = progress.step, progress.seconds, waited
        self.loss = self.nll = self.tokens = self.norm = 0.0

    def add(self, loss: float, nll: float, tokens: float, norm: float) -> None:
        self.loss, self.nll, self.tokens, self.norm = self.loss + loss, self.nll + nll, self.tokens + tokens, norm

    def close(self, progress: Progress, waited: float) -> dict[str, float]:
        """The means of the window (NaN when every step was skipped); a new window begins."""
        seconds = max(1e-9, progress.seconds - self.started)
        values = {
            "loss": self.loss / self.tokens if self.tokens else math.nan,
            "nll": self.nll / self.tokens if self.tokens else math.nan,
            "gradient_norm": self.norm,
            "tokens_per_second": self.tokens / seconds,
            "seconds_per_step": seconds / max(1, progress.step - self.first),
            "waiting_for_data": (waited - self.waited) / seconds,
        }
        self.begin(progress, waited)
        return values
