"""A model's weights by name, each shared matrix once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from heedful.errors import HeedfulError


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Name → tensor of every parameter; a matrix that several parts share stands under its first name only."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    """Copy weights into a model; a list of every difference when they are not this model's."""
    own = named_weights(model)
    wrong = [f"missing {name}" for name in own if name not in weights]
    wrong += [f"unknown {name}" for name in weights if name not in own]
    wrong += [
        f"{name} is {list(weights[name].shape)} and should be {list(own[name].shape)}"
        for name in own
        if name in weights and weights[name].shape != own[name].shape
    ]
    if wrong:
        raise HeedfulError(f"{origin} does not fit the model: {'; '.join(wrong)}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def take_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: str, new: tuple[str, ...]) -> None:
    """Copy pre-trained weights into a model whose head may be another: parts whose names begin with `new` stay fresh
    where the weights have none that fit, or nothing but zeros for a part that never was; all else must be there."""
    own = named_weights(model)
    fitting = {
        name: tensor
        for name, tensor in weights.items()
        if name in own and tensor.shape == own[name].shape and not (name.startswith(new) and not tensor.any())
    }
    lacking = [name for name in own if name not in fitting and not name.startswith(new)]
    if lacking:
        raise HeedfulError(f"{origin} does not fit the model: it lacks {', '.join(lacking)}, or they have another shape")
    with torch.no_grad():
        for name, tensor in fitting.items():
            own[name].copy_(tensor)
