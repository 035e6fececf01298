"""Weights sharded over the processes (PyTorch's FSDP2), for models that do not fit into one process."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from heedful.data.collation import TensorBatch
from heedful.nn.decoder import DecoderLayer
from heedful.nn.encoder import EncoderLayer
from heedful.runtime.processes import Processes, reporting_lost_processes
from heedful.training.averaging import running_share
from heedful.training.flat_layout import layout_of
from heedful.training.muon import ahead_of, direction, hidden_matrices
from heedful.training.weights import AdamSettings, Weights


class ShardedLoss(nn.Module):
    """A model together with its loss: the root module that is called, so that FSDP2 can gather and scatter around it."""

    def __init__(self, model: nn.Module, loss: Callable[..., tuple[Tensor, Tensor, int]]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: TensorBatch, **extra: float) -> tuple[Tensor, Tensor, int]:
        return self.loss(self.model, batch, **extra)


class ShardedWeights(Weights):
    """Every layer is gathered while it computes and freed again; gradients and moments exist only as shards.

    Muon needs whole matrices: they are gathered one at a time.
    """

    def __init__(self, root: ShardedLoss, processes: Processes, adam: AdamSettings, ema: float = 0.0, muon: bool = False) -> None:
        super().__init__(ema)
        self.processes = processes
        self.layout = layout_of(root.model, muon).shapes
        hidden = hidden_matrices(root.model) if muon else {}
        device = next(root.parameters()).device
        mesh = init_device_mesh(device.type, (processes.world,))
        for layer in [module for module in root.modules() if isinstance(module, EncoderLayer | DecoderLayer)]:
            fully_shard(layer, mesh=mesh)
        fully_shard(root, mesh=mesh)
        named = dict(root.model.named_parameters())
        self.parameters: list[DTensor] = [p for p in (named[name] for name in self.layout) if isinstance(p, DTensor)]
        self.mesh = mesh
        self.moments = {name: [zeros_like(p) for p in self.parameters] for name in ("exp_avg", "exp_avg_sq")}
        shapes = [hidden.get(name) for name in self.layout]  # of the matrices in a parameter that Muon updates
        self.muons = [
            (p, moment, shape) for p, moment, shape in zip(self.parameters, self.moments["exp_avg"], shapes, strict=True) if shape
        ]
        self.rest = [p for p, shape in zip(self.parameters, shapes, strict=True) if not shape]
        self.optimizer = torch.optim.Adam(self.rest, lr=1.0, **adam, foreach=True)
        for parameter, shape, *moments in zip(self.parameters, shapes, *self.moments.values(), strict=True):
            if not shape:
                self.optimizer.state[parameter] = {"step": torch.tensor(0.0), **dict(zip(self.moments, moments, strict=True))}
        self.means = [parameter.to_local().detach().clone() for parameter in self.parameters] if ema else []

    def gradients(self) -> list[Tensor]:
        """This process's shards of the gradient."""
        return [p.grad.to_local() for p in self.parameters if isinstance(p.grad, DTensor)]

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def reduce(self, numbers: Tensor) -> list[float]:
        sums = self.processes.sum_(numbers).tolist()
        parts = self.gradients()
        for part in parts:
            part.mul_(self.processes.world)  # FSDP2 has taken the mean over processes
        squares = torch.stack([part.double().square().sum() for part in parts]).sum()
        self.norm = math.sqrt(self.processes.sum_(squares))
        return [float(number) for number in sums]

    @torch.no_grad()
    def update(self, rate: float, scale: float, decay: float) -> None:
        for gradient in self.gradients():
            gradient.mul_(scale)
        with reporting_lost_processes():
            for matrix, momentum, shape in self.muons:
                self._take_muon_step(matrix, momentum, shape, rate, decay)
        for parameter in self.rest if decay else ():
            if parameter.dim() > 1:
                parameter.to_local().mul_(1.0 - decay)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.updates += 1
        if self.ema:
            for mean, parameter in zip(self.means, self.parameters, strict=True):
                mean.lerp_(parameter.to_local(), running_share(self.ema, self.updates))

    def _take_muon_step(self, matrix: DTensor, momentum: DTensor, shape: tuple[int, int, int], rate: float, decay: float) -> None:
        """Gather the momentum of a parameter, make it orthogonal, and update this process's part by its part of that."""
        gradient = matrix.grad
        assert isinstance(gradient, DTensor)
        part = ahead_of(gradient.to_local(), momentum.to_local())
        whole = DTensor.from_local(part, self.mesh, matrix.placements, shape=matrix.shape, stride=matrix.stride()).full_tensor()
        step = direction(whole.view(shape)).reshape(matrix.shape).contiguous()
        # Every process has computed the same, so nothing needs to be sent.
        mine = distribute_tensor(step, self.mesh, matrix.placements, src_data_rank=None).to_local()
        matrix.to_local().mul_(1.0 - decay).add_(mine, alpha=-rate)

    def vectors(self) -> dict[str, Tensor]:
        parts: dict[str, list[DTensor]] = {"weights": self.parameters, **self.moments}
        if self.ema:
            parts["ema"] = [
                DTensor.from_local(mean, self.mesh, p.placements, shape=p.shape, stride=p.stride())
                for mean, p in zip(self.means, self.parameters, strict=True)
            ]
        whole: dict[str, list[Tensor]] = {}
        with torch.no_grad(), reporting_lost_processes():
            for name, pieces in parts.items():
                for piece in pieces:  # gathered one at a time; only the first process keeps them
                    full = piece.full_tensor()
                    if self.processes.first:
                        whole.setdefault(name, []).append(full.flatten().cpu())
        return {name: torch.cat(pieces) for name, pieces in whole.items()}

    @torch.no_grad()
    @reporting_lost_processes()
    def load(self, vectors: dict[str, Tensor], updates: int) -> None:
        for name, vector in vectors.items():
            pieces = vector.split([p.numel() for p in self.parameters])
            for index, (parameter, piece) in enumerate(zip(self.parameters, pieces, strict=True)):
                whole = piece.view(parameter.shape).to(parameter.device)
                part = distribute_tensor(whole, self.mesh, parameter.placements).to_local()
                if name == "weights":
                    parameter.to_local().copy_(part)
                elif name == "ema" and self.ema:
                    self.means[index].copy_(part)
                elif name != "ema":
                    self.moments[name][index].to_local().copy_(part)
        for parameter in self.rest:
            self.optimizer.state[parameter]["step"].fill_(updates)
        self.updates = updates

    @torch.no_grad()
    def swap_mean(self) -> None:
        for parameter, mean in zip(self.parameters, self.means, strict=True):
            kept = parameter.to_local().clone()
            parameter.to_local().copy_(mean)
            mean.copy_(kept)

    @torch.no_grad()
    @reporting_lost_processes()
    def fill(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        for name, part in zip(self.layout, self.parameters, strict=True):
            named[name].copy_(part.full_tensor())


def zeros_like(parameter: DTensor) -> DTensor:
    """Zeros, distributed as the parameter is."""
    found = torch.zeros_like(parameter)
    assert isinstance(found, DTensor)
    return found
