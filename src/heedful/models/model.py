"""What every model has: a count of its parameters; and the initialisation that GPT, BERT and ViT share."""

from __future__ import annotations

from torch import nn

STD = 0.02  # of GPT-2's, BERT's and ViT's fresh weights


class Model(nn.Module):
    """A module that can say how large its parts are."""

    def parameters_by_part(self) -> dict[str, int]:
        """How many parameters each part has; a shared matrix counts once, where it first stands."""
        counts: dict[str, int] = {}
        for name, parameter in self.named_parameters():
            part = name.split(".")[0]
            counts[part] = counts.get(part, 0) + parameter.numel()
        return counts


def initialise_normal(model: nn.Module) -> None:
    """Every matrix from a normal distribution of deviation 0.02, the biases of linear maps zero; norms stay as they are."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=STD)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
