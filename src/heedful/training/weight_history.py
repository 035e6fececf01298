"""Snapshots of the weights during training, to show how a model developed from its random start."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from heedful.errors import HeedfulError
from heedful.models.weights import named_weights
from heedful.page.model_file import Checkpoint
from heedful.runtime.files import write_whole

NAME = re.compile(r"step-(\d{9})\.safetensors")
FOLDER = "history"


def keep_weights(run: Path, step: int, model: nn.Module) -> None:
    """Write the weights of a step in 16 bits, unless they have been written already."""
    path = run / FOLDER / f"step-{step:09d}.safetensors"
    if path.is_file():
        return  # written before the run was continued from an earlier checkpoint
    path.parent.mkdir(exist_ok=True)
    weights = {name: weight.to("cpu", torch.float16).contiguous() for name, weight in named_weights(model).items()}
    write_whole(path, lambda temporary: save_file(weights, temporary))


def earlier_weights(folder: Path, model: nn.Module, count: int) -> list[Checkpoint]:
    """At most `count` snapshots from the run that a model directory belongs to, evenly spread over its training."""
    kept = folder.resolve().parent / FOLDER
    found = sorted((int(match[1]), path) for path in kept.glob("step-*") if (match := NAME.fullmatch(path.name)))
    if not found:
        raise HeedfulError(f"{kept.parent} has no earlier weights; training.history=STEPS keeps some during training")
    shapes = {name: tuple(weight.shape) for name, weight in named_weights(model).items()}
    places = sorted({round(place) for place in np.linspace(0, len(found) - 1, min(count, len(found)))})
    checkpoints = []
    for step, path in (found[place] for place in places):
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise HeedfulError(f"{path} cannot be read: {error}") from error
        if {name: tuple(weight.shape) for name, weight in weights.items()} != shapes:
            raise HeedfulError(f"{path} holds the weights of a different model from {folder}")
        checkpoints.append(Checkpoint(step, weights))
    return checkpoints
