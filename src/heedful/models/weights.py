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
    wrong += [f"unexpected {name}" for name in weights if name not in own]
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
