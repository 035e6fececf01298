"""The base class of all models."""

from __future__ import annotations

from torch import nn


class Model(nn.Module):
    """A module that counts its parameters part by part."""

    def parameters_by_part(self) -> dict[str, int]:
        """Number of parameters of each part; a shared matrix counts once, in the part that comes first."""
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = name.split(".")[0]
            counts[part] = counts.get(part, 0) + parameter.numel()
        return counts
