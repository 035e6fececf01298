"""One decoder layer on the newest token of many hypotheses, with as few calls as possible: a step has hundreds of them.

A linear map is computed together with what follows it, an activation or the addition of the residual.
Shapes: R rows, one per hypothesis, D d_model, I width in, O width out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from heedful.nn.decoder import DecoderLayer
from heedful.nn.fast.linear import LEAST, onednn_is_faster
from heedful.nn.residual import Residual


class InferenceLinear:
    """x Wᵀ + b without gradients; which library computes it is decided once for all calls."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """weight (O, I), bias (O,)"""
        self.weight, self.bias = weight.detach(), bias.detach()
        onednn = weight.dtype is torch.float32 and weight.device.type == "cpu" and onednn_is_faster()
        self.least = math.ceil(LEAST / weight.numel()) if onednn else math.inf  # rows for which oneDNN is faster

    def __call__(self, x: Tensor) -> Tensor:
        """(R, I) → (R, O)"""
        if len(x) < self.least:
            return torch.addmm(self.bias, x, self.weight.t())
        mapped: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return mapped

    def relu(self, x: Tensor) -> Tensor:
        """max(0, x Wᵀ + b): (R, I) → (R, O)"""
        if len(x) < self.least:
            return self(x).relu_()
        mapped: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "relu", [], "")
        return mapped

    def plus(self, x: Tensor, total: Tensor) -> Tensor:
        """total + x Wᵀ + b: (R, I), (R, O) → (R, O)"""
        if len(x) < self.least:
            return self(x).add_(total)
        mapped: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, total, self.weight, self.bias, "add")
        return mapped


class FastDecoderLayer:
    """The maps of a decoder layer; what attends stands between them, in `nn/fast/decoder.py`."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
        width = cross.widths[0]
        self.project_self = InferenceLinear(own.project_in.weight, own.project_in.bias)  # W_Q, W_K, W_V
        self.out_self = InferenceLinear(own.project_out.weight, own.project_out.bias)
        self.query_cross = InferenceLinear(cross.project_in.weight[:width], cross.project_in.bias[:width])
        self.out_cross = InferenceLinear(cross.project_out.weight, cross.project_out.bias)
        self.feed_in = InferenceLinear(feed.project_in.weight, feed.project_in.bias)
        self.feed_out = InferenceLinear(feed.project_out.weight, feed.project_out.bias)
        self.activation = feed.activation
        self.widths = own.widths
        self.around_self, self.around_cross, self.around_feed = layer.around_self, layer.around_cross, layer.around_feed

    def queries_keys_values(self, x: Tensor) -> Tensor:
        """(R, D) → (R, all widths)"""
        return self.project_self(before(self.around_self, x))

    def after_self(self, x: Tensor, heads: Tensor) -> Tensor:
        """The layer's input and the heads of self-attention (R, H · V) → (R, D)"""
        return after(self.around_self, self.out_self.plus(heads, x))

    def cross_queries(self, x: Tensor) -> Tensor:
        """(R, D) → (R, H · K)"""
        return self.query_cross(before(self.around_cross, x))

    def after_cross(self, x: Tensor, heads: Tensor) -> Tensor:
        """With the heads of cross-attention (R, H · V), and with the feed-forward network → (R, D)"""
        x = after(self.around_cross, self.out_cross.plus(heads, x))
        y = before(self.around_feed, x)
        inner = self.feed_in.relu(y) if self.activation is torch.nn.functional.relu else self.activation(self.feed_in(y))
        return after(self.around_feed, self.feed_out.plus(inner, x))


def before(around: Residual, x: Tensor) -> Tensor:
    """As `Residual.before`."""
    return normed(around.norm, x) if around.pre else x


def after(around: Residual, total: Tensor) -> Tensor:
    """As `Residual.after`, of a sum that is computed already."""
    return total if around.pre else normed(around.norm, total)


def normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """LayerNorm(x), without the cost of calling a module."""
    return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
