"""All weights in one flat vector, so that the all-reduce, the gradient norm, the optimizer step and a checkpoint are one
operation each; a small model would otherwise spend its time in hundreds of small ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from heedful.runtime.processes import Processes
from heedful.training.averaging import running_share
from heedful.training.flat_layout import layout_of, share_of
from heedful.training.flat_memory import FlatMemory
from heedful.training.muon import Muon
from heedful.training.weights import AdamSettings, Weights


class FlatWeights(Weights):
    """Moves the parameters of a model into one vector, which the processes of one machine share; each updates a part of it."""

    def __init__(self, model: nn.Module, processes: Processes, adam: AdamSettings, ema: float = 0.0, muon: bool = False) -> None:
        super().__init__(ema)
        self.processes = processes
        layout = layout_of(model, muon)
        self.layout = layout.shapes
        some = next(model.parameters())
        self.memory = FlatMemory(layout.size, some, processes, running_mean=bool(ema))
        self.state, self.gradients, self.gradient = self.memory.state, self.memory.gradients, self.memory.gradient
        self.shares = self.memory.shared
        share = share_of(layout, processes.rank, processes.world) if self.shares else share_of(layout, 0, 1)
        self.parts, self.rest_part = share.parts, share.rest
        self.matrices = self._adopt(dict(model.named_parameters()), dict(layout.slices()))
        self.muons = [
            Muon(*(vector[part].view(-1, stack.rows, stack.columns) for vector in self._updated_vectors()))
            for stack, part in share.stacks
        ]
        self.rest, self.optimizer = self._adam(adam, fused=some.device.type != "mps")
        self.memory.wait()

    def _updated_vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """What an optimizer step reads and writes: weights, the summed gradient, the first moment."""
        return self.state["weights"], self.gradients[0], self.state["exp_avg"]

    def _adopt(self, parameters: dict[str, nn.Parameter], places: dict[str, slice]) -> list[Tensor]:
        """Copy the parameters into the vector and point them at it.

        Every process fills the part that it updates; together they fill the vector. Returns the matrices in Adam's part,
        the only parameters there that weight decay applies to.
        """
        values, matrices = self.state["weights"], []
        for name, place in places.items():
            parameter = parameters[name]
            for part in self.parts:
                start, end = max(part.start, place.start), min(part.stop, place.stop)
                if start < end:
                    values[start:end] = parameter.data.flatten()[start - place.start : end - place.start]
                    if parameter.dim() > 1 and part is self.rest_part:
                        matrices.append(values[start:end])
            parameter.data = values[place].view_as(parameter)
            parameter.grad = self.gradient[place].view_as(parameter)
        if self.ema:
            for part in self.parts:
                self.state["ema"][part] = values[part]
        return matrices

    def _adam(self, settings: AdamSettings, fused: bool) -> tuple[nn.Parameter, torch.optim.Adam]:
        """Adam for the part of the vector that Muon does not update; its moments are part of the flat state."""
        part = self.rest_part
        rest = nn.Parameter(self.state["weights"][part])
        rest.grad = self.gradients[0][part]
        optimizer = torch.optim.Adam([rest], lr=1.0, **settings, fused=fused)
        moments = {name: self.state[name][part] for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[rest] = {"step": torch.tensor(0.0, device=rest.device), **moments}
        return rest, optimizer

    def clear(self) -> None:
        self.gradient.zero_()

    def reduce(self, numbers: Tensor) -> list[float]:
        if not self.shares:
            extra = self.memory.reduced[self.gradient.numel() :][: len(numbers)]
            extra.copy_(numbers)
            self.processes.sum_(self.memory.reduced)
            self.norm = float(self.gradient.norm())
            return extra.tolist()
        sums = self.memory.sum_(numbers)  # also a barrier: every process's gradient is complete
        squares = torch.zeros((), dtype=torch.float64)
        for part in self.parts:
            first, *others = (gradient[part] for gradient in self.gradients)
            for other in others:
                first += other
            squares += torch.dot(first, first)
        self.norm = math.sqrt(self.memory.sum_(squares))  # also a barrier: no process reads another's gradient any more
        return sums.tolist()

    @torch.no_grad()
    def update(self, rate: float, scale: float, decay: float) -> None:
        for part in self.parts:
            self.gradients[0][part] *= scale
        for muon in self.muons:
            muon.step(rate, decay)
        for matrix in self.matrices if decay else ():
            matrix.mul_(1.0 - decay)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.updates += 1
        if self.ema:
            for part in self.parts:
                self.state["ema"][part].lerp_(self.state["weights"][part], running_share(self.ema, self.updates))
        self.memory.wait()

    def vectors(self) -> dict[str, Tensor]:
        return self.state

    @torch.no_grad()
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        self.memory.wait()  # the first process may still be writing these vectors to a checkpoint
        for name, vector in vectors.items():
            for part in self.parts if name in self.state else ():
                self.state[name][part] = vector[part].to(self.rest.device)
        self.optimizer.state[self.rest]["step"].fill_(updates)
        self.updates = updates
        self.memory.wait()

    @torch.no_grad()
    def swap_mean(self) -> None:
        self.memory.wait()
        for part in self.parts:
            weights, mean = self.state["weights"][part], self.state["ema"][part]
            kept = weights.clone()
            weights.copy_(mean)
            mean.copy_(kept)
        self.memory.wait()
