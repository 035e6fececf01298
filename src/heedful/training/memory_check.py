"""Whether a model can be trained in the memory of this machine, checked before anything is allocated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from heedful.errors import UsageError
from heedful.models.weights import weight_shapes
from heedful.runtime.device import memory_of_machine

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

BYTES_PER_PARAMETER = 16  # float32: the weight, its gradient and two moments of Adam


def check_memory(config: ModelConfig, device: torch.device, processes: int = 1) -> None:
    """Raise an error if training a model with these settings needs more memory than this machine has; nothing is allocated."""
    parameters = sum(math.prod(shape) for shape in weight_shapes(config).values())
    there = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else memory_of_machine()
    needed = parameters * BYTES_PER_PARAMETER / processes
    if needed > there:
        raise UsageError(
            f"a model of {parameters:,} parameters needs about {needed / 1e9:,.0f} GB to be trained, but there are "
            f"only {there / 1e9:,.0f} GB; use a smaller model.preset, model.d_model or model.layers"
        )
