"""How the tensors of a Hugging Face model map to our weights: declared once, used for import and export.

"Ours" is heedful's model, "theirs" the Hugging Face model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.models.weights import weight_shapes
from heedful.pipelines.model_directory import WRONG_SHOWN

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class MappedWeight:
    """One of our weights and the tensors of theirs with the same values."""

    ours: str
    theirs: tuple[str, ...]  # one tensor, or several that we concatenate along dimension 0
    transposed: bool = False  # theirs is the transpose of ours
    shape: tuple[int, ...] | None = None  # their shape, if ours is a reshape of it
    skip: int = 0  # unused rows at the beginning of theirs
    copies: tuple[str, ...] = ()  # other names under which a file may store the same tensor, additionally or instead

    def their_shape(self, ours: Sequence[int]) -> tuple[int, ...]:
        """The shape that each of their tensors must have when our weight has the shape `ours`."""
        if self.shape is not None:
            return self.shape
        shape = (self.skip + ours[0] // len(self.theirs), *ours[1:])
        return shape[::-1] if self.transposed else shape

    def read(self, tensors: Sequence[Tensor], ours: Sequence[int]) -> Tensor:
        """Their tensors → our weight. Half precision becomes float32, which represents it exactly."""
        parts = [tensor.float().T if self.transposed else tensor.float() for tensor in tensors]
        return torch.cat(parts)[self.skip :].reshape(*ours).contiguous()

    def write(self, weight: Tensor) -> list[Tensor]:
        """Our weight → their tensors."""
        if self.shape is not None:
            return [weight.reshape(self.shape)]
        if self.skip:
            weight = torch.cat([weight.new_zeros(self.skip, *weight.shape[1:]), weight])
        return [(part.T if self.transposed else part).contiguous() for part in weight.chunk(len(self.theirs))]


def linear(ours: str, *theirs: str, transposed: bool = False) -> list[MappedWeight]:
    """Weight and bias of a linear layer or a LayerNorm."""
    return [
        MappedWeight(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), transposed),
        MappedWeight(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs)),
    ]


def import_weights(
    mapping: Sequence[MappedWeight], config: ModelConfig, tensors: Mapping[str, Tensor], origin: str
) -> dict[str, Tensor]:
    """Our weights from their tensors; if the tensors do not fit the model, an error that lists every difference."""
    shapes = weight_shapes(config)
    weights: dict[str, Tensor] = {}
    wrong: list[str] = []
    for mapped in mapping:
        found = [first_of(name, mapped.copies, tensors) for name in mapped.theirs]
        wanted = mapped.their_shape(shapes[mapped.ours])
        complete = True
        for name, at in zip(mapped.theirs, found, strict=True):
            problem = "missing " + name if at is None else why_unfit(at, tensors[at], wanted)
            if problem:
                wrong.append(problem)
                complete = False
        if complete:
            parts = [tensors[at] for at in found if at is not None]
            weights[mapped.ours] = mapped.read(parts, shapes[mapped.ours])
            wrong += [
                f"{copy} differs from {found[0]}, but heedful ties the two"
                for copy in mapped.copies
                if copy in tensors and not torch.equal(tensors[copy].float(), parts[0].float())
            ]
    known = {name for mapped in mapping for name in (*mapped.theirs, *mapped.copies)}
    wrong += [f"unknown {name}" for name in tensors if name not in known]
    if wrong:
        more = f"; and {len(wrong) - WRONG_SHOWN:,} more" if len(wrong) > WRONG_SHOWN else ""
        raise HeedfulError(f"{origin} does not fit its config.json: {'; '.join(wrong[:WRONG_SHOWN])}{more}")
    return weights


def first_of(name: str, copies: Sequence[str], tensors: Mapping[str, Tensor]) -> str | None:
    """The first name under which a file has a tensor, or None."""
    return next((known for known in (name, *copies) if known in tensors), None)


def why_unfit(name: str, tensor: Tensor, wanted: Sequence[int]) -> str | None:
    """What is wrong with a tensor, or None."""
    if tensor.dtype not in FLOATS:
        return f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, not a floating-point one"
    if tuple(tensor.shape) != tuple(wanted):
        return f"{name} is {list(tensor.shape)} and should be {list(wanted)}"
    return None


def export_weights(mapping: Sequence[MappedWeight], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors from our weights; tied tensors are written once, under their first name."""
    tensors: dict[str, Tensor] = {}
    for mapped in mapping:
        tensors.update(zip(mapped.theirs, mapped.write(weights[mapped.ours]), strict=True))
    return tensors
