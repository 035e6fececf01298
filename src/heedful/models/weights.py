"""The weights of a model by name: listed, loaded, and extended by new tokens. Their files: `pipelines.model_directory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heedful.errors import HeedfulError
from heedful.models.registry import build_model
from heedful.settings import Values

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Name → tensor of every parameter; a matrix that several parts share is listed once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name → shape of every weight of the model with this config, without allocating it."""
    with torch.device("meta"), SkipNormal():
        return {name: tuple(weight.shape) for name, weight in named_weights(build_model(config)).items()}


class SkipNormal(TorchFunctionMode):
    """Inside the block, `normal_` does nothing: on the `meta` device it would import PyTorch's compiler, which takes a second."""

    def __torch_function__(
        self, func: Callable[..., object], types: Sequence[type], args: Sequence[object] = (), kwargs: Values | None = None
    ) -> object:
        named = kwargs or {}
        if getattr(func, "__name__", "").endswith("normal_"):
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    """Copy weights into a model; the error lists every difference when they do not fit. `origin` names their file."""
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
    """Copy pre-trained weights into a model that may have another head.

    A parameter whose name starts with one of `new` keeps its fresh values if the file has none that fits, or only zeros, as
    for a part that was never trained. Every other parameter must be in the file.
    """
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


def with_new_rows(weight: Tensor, rows: int, first: int, parts: Sequence[Sequence[int]]) -> Tensor:
    """A matrix or vector with one row per token, enlarged to `rows` tokens. A new row, from id `first` on, is the mean of the
    rows of its `parts`, or of all rows if it has none, so that its logit is never the highest before training."""
    larger = weight.new_zeros(rows, *weight.shape[1:])
    larger[: len(weight)] = weight
    for number, tokens in enumerate(parts):
        larger[first + number] = (weight[list(tokens)] if tokens else weight).mean(0)
    return larger
