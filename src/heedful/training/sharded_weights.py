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
from heedful.training.weights import AdamSettings, Weights


class ShardedLoss(nn.Module):
    """A model together with its loss: the root module that is called, so that FSDP2 can gather and scatter around it."""

    def __init__(self, model: nn.Module, loss: Callable[..., tuple[Tensor, Tensor, int]]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: TensorBatch, **extra: float) -> tuple[Tensor, Tensor, int]:
        return self.loss(self.model, batch, **extra)


class ShardedWeights(Weights):
    """Every layer is gathered while it computes and freed again; gradients and Adam's moments exist only as shards."""

    def __init__(self, root: ShardedLoss, processes: Processes, adam: AdamSettings, ema: float = 0.0) -> None:
        super().__init__(ema)
        self.processes = processes
        self.layout = {name: list(parameter.shape) for name, parameter in root.model.named_parameters()}
        device = next(root.parameters()).device
        mesh = init_device_mesh(device.type, (processes.world,))
        for layer in [module for module in root.modules() if isinstance(module, EncoderLayer | DecoderLayer)]:
            fully_shard(layer, mesh=mesh)
        fully_shard(root, mesh=mesh)
        self.parameters: list[DTensor] = [p for p in root.model.parameters() if isinstance(p, DTensor)]
        self.mesh = mesh
        self.optimizer = torch.optim.Adam(self.parameters, lr=1.0, **adam, foreach=True)
        for parameter in self.parameters:
            self.optimizer.state[parameter] = {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self.means = [parameter.to_local().detach().clone() for parameter in self.parameters] if ema else []

    def gradients(self) -> list[Tensor]:
        """This process's shards of the gradient."""
        return [p.grad.to_local() for p in self.parameters if isinstance(p.grad, DTensor)]

    def clear(self) -> None:
        self.optimizer.zero_grad()

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
        for parameter in self.parameters if decay else ():
            if parameter.dim() > 1:
                parameter.to_local().mul_(1.0 - decay)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.updates += 1
        if self.ema:
            for mean, parameter in zip(self.means, self.parameters, strict=True):
                mean.lerp_(parameter.to_local(), running_share(self.ema, self.updates))

    def vectors(self) -> dict[str, Tensor]:
        parts: dict[str, list[DTensor]] = {"weights": self.parameters}
        for moment in ("exp_avg", "exp_avg_sq"):
            parts[moment] = [self.optimizer.state[parameter][moment] for parameter in self.parameters]
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
                    self.optimizer.state[parameter][name].to_local().copy_(part)
        for parameter in self.parameters:
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
        for parameter, part in zip(model.parameters(), self.parameters, strict=True):
            parameter.copy_(part.full_tensor())
