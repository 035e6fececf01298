"""The weights in training, their gradient and Adam, whichever process holds which part of them.

All weights lie in one vector, all gradients in another: the sum over processes, the norm, the optimizer step and a
checkpoint are one operation each, where a small model would spend its time in hundreds of little ones. On one machine
several processes share the vector of the weights and the moments of Adam, and each takes care of a part of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from heedful.runtime.processes import Processes
from heedful.runtime.shared_memory import Board, shared_floats
from heedful.training.muon import Muon, hidden_matrices

ALIGNED = 16  # parts begin at a multiple of so many numbers, a line of a processor's cache
LAST = (0, math.inf, math.inf)  # behind every matrix


class Weights(ABC):
    """What the trainer asks of the weights. Every method is for all processes to call together."""

    layout: dict[str, list[int]]  # name → shape of every parameter, in the order of the vectors
    norm: float = 0.0  # of the gradient summed by `reduce`

    def __init__(self, ema: float) -> None:
        self.ema = ema  # how much of the running mean of the weights stays at a step; 0 keeps no mean
        self.updates = 0

    @abstractmethod
    def clear(self) -> None:
        """Forget the gradient."""

    @abstractmethod
    def reduce(self, numbers: Tensor) -> list[float]:
        """Sum the gradient over all processes, and a few numbers with it."""

    @abstractmethod
    def update(self, rate: float, scale: float, decay: float) -> None:
        """An Adam step with `scale` · the summed gradient, after a share `decay` of every matrix is taken away (AdamW;
        vectors, such as biases and gains, keep theirs)."""

    @abstractmethod
    def vectors(self) -> dict[str, Tensor]:
        """`weights`, Adam's `exp_avg` and `exp_avg_sq` and, if there is one, the running mean `ema`: a checkpoint.

        It is for the first process to write; the others may be given nothing.
        """

    @abstractmethod
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        """What `vectors` gave after so many updates, or some of it."""

    @abstractmethod
    def swap_mean(self) -> None:
        """Exchange the weights with their running mean."""

    def fill(self, model: nn.Module) -> None:  # noqa: B027
        """Give all of the weights to the model that is judged, if that is not the trained one, which has them."""

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Inside, the model has the weights that are judged and kept: their running mean, if there is one."""
        if self.ema:
            self.swap_mean()
        try:
            yield
        finally:
            if self.ema:
                self.swap_mean()

    def mean_share(self) -> float:
        """How much of the newest weights goes into the running mean; more in the beginning, which is soon forgotten."""
        return 1.0 - min(self.ema, self.updates / (self.updates + 9))


class FlatWeights(Weights):
    """Moves the parameters of a model into one vector, and shares it with the processes of this machine if it can.

    With Muon the matrices of the layers stand first, those of one shape together; the rest, which is Adam's, follows.
    """

    def __init__(
        self, model: nn.Module, processes: Processes, adam: dict[str, Any], ema: float = 0.0, muon: bool = False
    ) -> None:
        super().__init__(ema)
        self.processes = processes
        hidden = hidden_matrices(model) if muon else {}
        # Sorting keeps the order of what is alike.
        parameters = dict(sorted(model.named_parameters(), key=lambda item: hidden.get(item[0], LAST)[1:]))
        self.layout = {name: list(parameter.shape) for name, parameter in parameters.items()}
        some = next(iter(parameters.values()))
        count = sum(parameter.numel() for parameter in parameters.values())
        kinds = 4 if ema else 3
        room: Tensor | None = None
        if processes.world > 1 and some.device.type == "cpu" and some.dtype == torch.float32:
            room = shared_floats(processes, kinds + processes.world, count)
        self.shares = room is not None
        self.sum_ = Board(processes).sum_ if self.shares and Board.possible(processes) else processes.sum_
        if room is None:
            # Behind the gradient is room for the numbers that are summed with it.
            state = torch.zeros(kinds, count, dtype=some.dtype, device=some.device)
            self.reduced = torch.zeros(count + 8, dtype=some.dtype, device=some.device)
            gradient, self.gradients = self.reduced[:count], [self.reduced[:count]]
        else:
            state, self.gradients = room[:kinds], list(room[kinds:])
            gradient = self.gradients[processes.rank]
        self.state = dict(zip(("weights", "exp_avg", "exp_avg_sq", "ema"), state, strict=False))
        values = self.state["weights"]

        stacks: Counter[tuple[int, int]] = Counter()  # (rows, columns) → how many matrices; one shape after the other
        for number, *shape in sorted(hidden.values(), key=lambda matrix: matrix[1:]):
            stacks[shape[0], shape[1]] += number
        self.parts: list[slice] = []  # what this process takes care of
        self.muons = []
        start = 0
        for (rows, columns), number in stacks.items():
            mine = self.share(number)
            part = slice(*(start + i * rows * columns for i in (mine.start, mine.stop)))
            views = (vector[part].view(-1, rows, columns) for vector in (values, self.gradients[0], self.state["exp_avg"]))
            self.muons.append(Muon(*views))
            self.parts.append(part)
            start += number * rows * columns
        mine = self.share(count - start, ALIGNED)
        rest = slice(start + mine.start, start + mine.stop)
        self.parts.append(rest)

        start, self.matrices = 0, []
        for parameter in parameters.values():
            end = start + parameter.numel()
            for part in self.parts:
                a, b = max(part.start, start), min(part.stop, end)
                if a < b:
                    values[a:b] = parameter.data.flatten()[a - start : b - start]
                    if parameter.dim() > 1 and part is rest:
                        self.matrices.append(values[a:b])
            parameter.data = values[start:end].view_as(parameter)
            parameter.grad = gradient[start:end].view_as(parameter)
            start = end
        self.gradient = gradient
        for part in self.parts if ema else ():
            self.state["ema"][part] = values[part]
        self.rest = nn.Parameter(values[rest])
        self.rest.grad = self.gradients[0][rest]
        self.optimizer = torch.optim.Adam([self.rest], lr=1.0, **adam, fused=some.device.type != "mps")
        self.optimizer.state[self.rest] = {
            "step": torch.tensor(0.0, device=some.device),
            "exp_avg": self.state["exp_avg"][rest],
            "exp_avg_sq": self.state["exp_avg_sq"][rest],
        }
        self.wait()

    def share(self, number: int, multiple: int = 1) -> slice:
        """This process's part of so many things, all of them if nothing is shared."""
        if not self.shares:
            return slice(0, number)
        step = math.ceil(number / self.processes.world / multiple) * multiple
        return slice(*(min(number, (self.processes.rank + i) * step) for i in (0, 1)))

    def wait(self) -> None:
        """Until every process is here, and so has done with the shared vectors what it was about to do."""
        if self.shares:
            self.sum_(torch.zeros(1))

    def clear(self) -> None:
        self.gradient.zero_()

    def reduce(self, numbers: Tensor) -> list[float]:
        if not self.shares:
            extra = self.reduced[self.gradient.numel() :][: len(numbers)]
            extra.copy_(numbers)
            self.processes.sum_(self.reduced)
            self.norm = float(self.gradient.norm())
            return extra.tolist()
        sums = self.sum_(numbers)  # when it is known, everyone's gradient is complete
        squares = torch.zeros((), dtype=torch.float64)
        for part in self.parts:
            first, *others = (gradient[part] for gradient in self.gradients)
            for other in others:
                first += other
            squares += torch.dot(first, first)
        self.norm = math.sqrt(self.sum_(squares))  # and now nobody reads another's any more
        return sums.tolist()

    @torch.no_grad()
    def update(self, rate: float, scale: float, decay: float) -> None:
        for part in self.parts:
            self.gradients[0][part] *= scale
        for muon in self.muons:
            muon.step(rate, decay)
        if decay and self.matrices:
            torch._foreach_mul_(self.matrices, 1.0 - decay)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.updates += 1
        for part in self.parts if self.ema else ():
            self.state["ema"][part].lerp_(self.state["weights"][part], self.mean_share())
        self.wait()

    def vectors(self) -> dict[str, Tensor]:
        return self.state

    @torch.no_grad()
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        self.wait()  # the first process may be writing a checkpoint of what is about to change
        for name, vector in vectors.items():
            for part in self.parts if name in self.state else ():
                self.state[name][part] = vector[part].to(self.rest.device)
        self.optimizer.state[self.rest]["step"].fill_(updates)
        self.updates = updates
        self.wait()

    @torch.no_grad()
    def swap_mean(self) -> None:
        self.wait()
        for part in self.parts:
            weights, mean = self.state["weights"][part], self.state["ema"][part]
            kept = weights.clone()
            weights.copy_(mean)
            mean.copy_(kept)
        self.wait()
