"""What the trainer needs of the weights in training, however they are distributed over processes.

`flat_weights` keeps them whole in one vector, `sharded_weights` gives every process a part (FSDP2).
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
        """An optimizer step with `scale` · the summed gradient, after every matrix shrinks by the fraction `decay` (AdamW;
        vectors, such as biases and gains, do not)."""

    @abstractmethod
    def vectors(self) -> dict[str, Tensor]:
        """`weights`, Adam's `exp_avg` and `exp_avg_sq` and, if there is one, the running mean `ema`: a checkpoint.

        The first process writes it; the others may get nothing.
        """

    @abstractmethod
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        """Restore some or all of what `vectors` returned after `updates` updates."""

    @abstractmethod
    def swap_mean(self) -> None:
        """Exchange the weights with their running mean."""

    def fill(self, model: nn.Module) -> None:  # noqa: B027  # not abstract: most weights have nothing to do here
        """Copy the weights into the model that is validated, if that is not the trained one, which has them."""

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Inside, the model has the weights that are validated and kept: their running mean, if there is one."""
        if self.ema:
            self.swap_mean()
        try:
            yield
        finally:
            if self.ema:
                self.swap_mean()
