"""The position-wise feed-forward network (SPEC 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU in its tanh approximation, with which GPT-2 was trained (Hugging Face: gelu_new)."""
    return F.gelu(x, approximate="tanh")


Activation = Literal["relu", "gelu", "gelu-tanh", "silu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, the same at every position; other activations as options."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        self.project_in = nn.Linear(d_model, d_ff)
        self.project_out = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        for linear in (self.project_in, self.project_out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)"""
        return self.project_out(self.activation(self.project_in(x)))
