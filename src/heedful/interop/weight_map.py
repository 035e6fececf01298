"""Which of their tensors make which of our weights, said once and used in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.pipelines.directory import WRONG_SHOWN, weight_shapes

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class MappedWeight:
    """One of our weights and the tensors of theirs that hold the same numbers."""

    ours: str
    theirs: tuple[str, ...]  # one tensor, or several that we stack along their rows
    transposed: bool = False  # theirs multiplies from the other side
    shape: tuple[int, ...] | None = None  # of theirs, where the same numbers have other axes
    copies: tuple[str, ...] = ()  # other names under which a file may hold the same tensor, or hold it alone

    def their_shape(self, ours: Sequence[int]) -> tuple[int, ...]:
        """What one tensor of theirs must be when our weight has this shape."""
        if self.shape is not None:
            return self.shape
        shape = (ours[0] // len(self.theirs), *ours[1:])
        return shape[::-1] if self.transposed else shape

    def read(self, tensors: Sequence[Tensor], ours: Sequence[int]) -> Tensor:
        """Their tensors → our weight. Half precision becomes float32, which holds it exactly."""
        parts = [tensor.float().T if self.transposed else tensor.float() for tensor in tensors]
        return torch.cat(parts).reshape(*ours).contiguous()

    def write(self, weight: Tensor) -> list[Tensor]:
        """Our weight → their tensors."""
        if self.shape is not None:
            return [weight.reshape(self.shape)]
        return [(part.T if self.transposed else part).contiguous() for part in weight.chunk(len(self.theirs))]


def linear(ours: str, *theirs: str, **settings: Any) -> list[MappedWeight]:
    """Weight and bias of a linear map, or of a LayerNorm."""
    return [
        MappedWeight(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), **settings),
        MappedWeight(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs)),
    ]


def import_weights(links: Sequence[MappedWeight], config: Any, tensors: Mapping[str, Tensor], origin: str) -> dict[str, Tensor]:
    """Our weights from all of their tensors; a list of every difference when these are not the model's."""
    shapes = weight_shapes(config)
    weights: dict[str, Tensor] = {}
    wrong: list[str] = []
    for link in links:
        found = [first_of(name, link.copies, tensors) for name in link.theirs]
        wanted = link.their_shape(shapes[link.ours])
        complete = True
        for name, at in zip(link.theirs, found, strict=True):
            problem = "missing " + name if at is None else why_unfit(at, tensors[at], wanted)
            if problem:
                wrong.append(problem)
                complete = False
        if complete:
            parts = [tensors[at] for at in found if at is not None]
            weights[link.ours] = link.read(parts, shapes[link.ours])
            wrong += [
                f"{copy} differs from {found[0]}, with which heedful shares it"
                for copy in link.copies
                if copy in tensors and not torch.equal(tensors[copy].float(), parts[0].float())
            ]
    known = {name for link in links for name in (*link.theirs, *link.copies)}
    wrong += [f"unknown {name}" for name in tensors if name not in known]
    if wrong:
        more = f"; and {len(wrong) - WRONG_SHOWN:,} more" if len(wrong) > WRONG_SHOWN else ""
        raise HeedfulError(f"{origin} does not fit its config.json: {'; '.join(wrong[:WRONG_SHOWN])}{more}")
    return weights


def first_of(name: str, copies: Sequence[str], tensors: Mapping[str, Tensor]) -> str | None:
    """The name under which a tensor stands in a file."""
    return next((known for known in (name, *copies) if known in tensors), None)


def why_unfit(name: str, tensor: Tensor, wanted: Sequence[int]) -> str | None:
    """What is wrong with a tensor, or None."""
    if tensor.dtype not in FLOATS:
        return f"{name} holds {str(tensor.dtype).removeprefix('torch.')}, not floating-point numbers"
    if tuple(tensor.shape) != tuple(wanted):
        return f"{name} is {list(tensor.shape)} and should be {list(wanted)}"
    return None


def export_weights(links: Sequence[MappedWeight], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors from our weights; what they share stands under its first name alone."""
    tensors: dict[str, Tensor] = {}
    for link in links:
        tensors.update(zip(link.theirs, link.write(weights[link.ours]), strict=True))
    return tensors
