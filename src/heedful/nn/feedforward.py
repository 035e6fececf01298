"""The position-wise feed-forward network (Section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from heedful.nn.fast.linear import Linear


def gelu_tanh(x: Tensor) -> Tensor:
    """The tanh approximation of GELU that GPT-2 was trained with (`gelu_new` in Hugging Face Transformers)."""
    return F.gelu(x, approximate="tanh")


Activation = Literal["relu", "gelu", "gelu-tanh", "silu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, Equation 2, the same at every position; other activations are options."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        self.project_in = Linear(d_model, d_ff)  # W_1, b_1
        self.project_out = Linear(d_ff, d_model)  # W_2, b_2
        self.activation = ACTIVATIONS[activation]
        for linear in (self.project_in, self.project_out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)"""
        output: Tensor = self.project_out(self.activation(self.project_in(x)))
        return output
