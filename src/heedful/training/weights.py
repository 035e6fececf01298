"""The interface between the trainer and the weights it trains, however they are distributed over processes.

`flat_weights` keeps them in one vector that every process has; `sharded_weights` gives each process a part (FSDP2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from torch import Tensor, nn


class AdamSettings(TypedDict):
    """Keyword arguments of `torch.optim.Adam`."""

    betas: tuple[float, float]
    eps: float


class Weights(ABC):
    """Weights, gradient and optimizer. Every method is called by all processes together."""

    layout: dict[str, list[int]]  # name → shape of every parameter, in the order of the vectors
    norm: float = 0.0  # of the gradient summed by `reduce`

    def __init__(self, ema: float) -> None:
        self.ema = ema  # decay of the running mean of the weights (EMA); 0 keeps no mean
        self.updates = 0

    @abstractmethod
    def clear(self) -> None:
        """Set the gradient to zero."""

    @abstractmethod
    def reduce(self, numbers: Tensor) -> list[float]:
        """All-reduce: sum the gradient over all processes, and a few numbers with it; returns these."""

    @abstractmethod
    def update(self, rate: float, scale: float, decay: float) -> None:
        """Take an optimizer step with `scale` · the summed gradient, after weight decay: every matrix shrinks by the fraction
        `decay` (AdamW); biases and gains do not."""

    @abstractmethod
    def vectors(self) -> dict[str, Tensor]:
        """What a checkpoint holds: `weights`, Adam's `exp_avg` and `exp_avg_sq`, and the running mean `ema` if there is one.

        Rank 0 writes it; the other ranks may get nothing.
        """

    @abstractmethod
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        """Restore some or all of what `vectors` returned after this many updates."""

    @abstractmethod
    def swap_mean(self) -> None:
        """Swap the weights and their running mean."""

    def fill(self, model: nn.Module) -> None:  # noqa: B027  # not abstract: usually there is nothing to do
        """Copy the weights into the model used for validation, if it is not the trained model itself."""

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside the block, the model has the running mean of the weights, if there is one: what is validated and saved."""
        if self.ema:
            self.swap_mean()
        try:
            yield
        finally:
            if self.ema:
                self.swap_mean()
