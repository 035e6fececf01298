"""Dropout (Section 5.4)."""

from __future__ import annotations

from torch import Tensor, nn

from heedful.nn.fast import dropout as fast


class Dropout(nn.Module):
    """Zero each value with probability p and scale the others by 1/(1 − p), during training.

    Uses PyTorch's dropout or, on a CPU, the faster `nn/fast/dropout.py`.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        return fast.dropout(x, self.p) if x.device.type == "cpu" else nn.functional.dropout(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + Dropout(y)"""
        if self.training and self.p and x.device.type == "cpu":
            return fast.add_dropout(x, y, self.p)
        return x + self.forward(y)
