"""Dropout for a CPU, where it costs mostly random numbers: one 64-bit draw decides several values.

Eight values per draw, with p rounded to a multiple of 1/256 and the scale 1/(1 − p) computed from the rounded p, so that
the expected value stays exact. If rounding would change p by more than 5%, as for p = 0.001, a draw decides four values and
p is rounded to 1/65,536. If that is still too coarse, PyTorch's dropout is used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value of x with probability p and scale the others by 1/(1 − p)."""
    return x * dropout_factors(x, p)


def add_dropout(x: Tensor, y: Tensor, p: float) -> Tensor:
    """x + dropout(y, p) in one pass over memory."""
    return torch.addcmul(x, y.to(x.dtype), dropout_factors(x, p))


def dropout_factors(x: Tensor, p: float) -> Tensor:
    """What dropout multiplies each value of x by: 0, or 1/(1 − p)."""
    # An integer of `levels` values, the lowest being `lowest`, is below lowest + cut with probability cut / levels ≈ p.
    dtype, levels, lowest = (torch.uint8, 256, 0) if rounds_well(p, 256) else (torch.int16, 65_536, -32_768)
    if not rounds_well(p, levels):
        return nn.functional.dropout(torch.ones_like(x), p)
    cut = round(p * levels)
    per_draw = 8 // dtype.itemsize
    draws = torch.empty(-(-x.numel() // per_draw), dtype=torch.int64).random_(-(2**63), None)
    keep = draws.view(dtype)[: x.numel()].view(x.shape) >= lowest + cut
    return keep.to(x.dtype).mul_(levels / (levels - cut))


def rounds_well(p: float, levels: int) -> bool:
    """Whether rounding p to a multiple of 1/levels changes it by 5% at most, and leaves it below 1."""
    cut = round(p * levels)
    return cut < levels and abs(cut / levels - p) <= p / 20
