"""A convolution over positions, the layer that Table 1 of the paper compares attention with.

Shapes: B batch, L length, D d_model.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Convolution(nn.Module):
    """Each position becomes a linear map of `kernel` positions: those around it, or with `causal` itself and those before.

    Costs O(k · L · D²). With `dilation` n these positions are n apart. Initialised with Xavier uniform; the bias is zero.
    """

    def __init__(self, d_model: int, kernel: int, dilation: int = 1, causal: bool = False) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(d_model, d_model, kernel, dilation=dilation)
        around = (kernel - 1) * dilation
        self.padding = (around, 0) if causal else (around // 2, around - around // 2)
        for place in range(kernel):
            nn.init.xavier_uniform_(self.convolve.weight[:, :, place])
        if self.convolve.bias is not None:
            nn.init.zeros_(self.convolve.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        convolved: Tensor = self.convolve(F.pad(x.transpose(1, 2), self.padding))
        return convolved.transpose(1, 2)
