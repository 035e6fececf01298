"""The memory of a training run: weights, optimizer moments, running mean and gradients as flat vectors.

The processes of one machine share it where they can: then there is one copy of everything but the gradients, and each
process reads the others' gradients directly instead of receiving them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.runtime.processes import Processes
from heedful.runtime.shared_memory import Board, shared_floats

EXTRA = 8  # numbers that are summed over processes together with the gradient


class FlatMemory:
    """The vectors of `state` by name, (size,) each, and the gradient of this process; `shared`: all processes see them."""

    def __init__(self, size: int, like: Tensor, processes: Processes, running_mean: bool) -> None:
        names = ("weights", "exp_avg", "exp_avg_sq", *(("ema",) if running_mean else ()))
        room: Tensor | None = None
        if processes.world > 1 and like.device.type == "cpu" and like.dtype == torch.float32:
            room = shared_floats(processes, len(names) + processes.world, size)
        self.shared = room is not None
        if room is None:
            rows = torch.zeros(len(names), size, dtype=like.dtype, device=like.device)
            # The extra numbers follow the gradient in memory, so that one all-reduce sums both.
            self.reduced = torch.zeros(size + EXTRA, dtype=like.dtype, device=like.device)
            self.gradients = [self.reduced[:size]]
            self.gradient = self.gradients[0]
        else:
            rows = room[: len(names)]
            self.gradients = list(room[len(names) :])  # one per process
            self.gradient = self.gradients[processes.rank]
        self.state: dict[str, Tensor] = dict(zip(names, rows, strict=True))
        self.sum_ = Board(processes).sum_ if self.shared and Board.possible(processes) else processes.sum_

    def wait(self) -> None:
        """A barrier: when it returns, every process has finished what it was doing with the shared vectors."""
        if self.shared:
            self.sum_(torch.zeros(1))
