"""The base class of all models, and the initialisation that GPT, BERT and ViT share."""

from __future__ import annotations

from torch import nn

STD = 0.02  # of the initial weights of GPT-2, BERT and ViT


class Model(nn.Module):
    """A module that counts its parameters part by part."""

    def parameters_by_part(self) -> dict[str, int]:
        """Number of parameters of each part; a shared matrix counts once, in the part that comes first."""
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = name.split(".")[0]
            counts[part] = counts.get(part, 0) + parameter.numel()
        return counts


def initialise_normal(model: nn.Module) -> None:
    """Every matrix from a normal distribution with standard deviation 0.02, biases of linear maps zero, norms unchanged."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=STD)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
