"""All parameters of a model in one tensor, and all gradients in another.

One long vector makes the sum over processes, the norm, the optimizer step and a checkpoint one operation each, where a
small model would spend its time in hundreds of little ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves a model's parameters into `values`; their gradients arrive in `gradient`, both of length P.

    `reduced` is the gradient with room for a few more numbers behind it, to be summed over processes in one go.
    """

    def __init__(self, model: nn.Module, extra: int = 0) -> None:
        parameters = dict(model.named_parameters())
        self.layout = {name: list(parameter.shape) for name, parameter in parameters.items()}
        some = next(iter(parameters.values()))
        count = sum(parameter.numel() for parameter in parameters.values())
        self.values = nn.Parameter(torch.empty(count, dtype=some.dtype, device=some.device))
        self.reduced = torch.zeros(count + extra, dtype=some.dtype, device=some.device)
        self.gradient = self.reduced[:count]
        self.values.grad = self.gradient
        self.matrices: list[Tensor] = []
        start = 0
        for parameter in parameters.values():
            end = start + parameter.numel()
            place = self.values.data[start:end].view_as(parameter)
            place.copy_(parameter.data)
            parameter.data = place
            if place.dim() > 1:
                self.matrices.append(place)
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def load(self, values: Tensor) -> None:
        """Set every parameter of the model from one vector."""
        with torch.no_grad():
            self.values.copy_(values)

    def decay(self, share: float) -> None:
        """Take a share of every matrix away (AdamW's weight decay); vectors, such as biases and gains, keep theirs."""
        with torch.no_grad():
            torch._foreach_mul_(self.matrices, 1.0 - share)
