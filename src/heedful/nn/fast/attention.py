"""Attention by PyTorch's fused kernel, and how to keep it fast on a CPU under bf16 autocast."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """The heads of `scaled_dot_product_attention`, without ever storing the (Lq, Lk) weights.

    `causal` needs as many queries as keys and no mask. On a CPU autocast is switched off here: the kernel computes in the
    precision of its arguments, for which see `float32_on_cpu`.
    """
    if bias is not None:
        mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)


def float32_on_cpu(projected: Tensor, x: Tensor) -> Tensor:
    """Queries, keys and values in the precision of x, the input they are projected from, when on a CPU.

    Under bf16 autocast the projections come out in bf16, and the backward pass of the CPU's attention kernel is ten times
    slower in bf16 than in float32.
    """
    return projected.to(x.dtype) if x.device.type == "cpu" else projected
