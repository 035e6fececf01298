"""One step of all decoder layers, for the newest token of many hypotheses: functions that TorchScript runs without Python.

A step has hundreds of operations, most of them small. Between two of them, Python would hold its lock, for which the threads
that decode other sentences wait. TorchScript reads the types of this file, so they are written as it wants them.
A linear map is computed together with what follows it, an activation or the addition of the residual.
Shapes: S sentences, B beam, R = S · B rows, H heads, N columns of earlier keys, L source length, K d_k, V d_v, D d_model,
I width in, O width out.
"""

import math
import warnings
from collections.abc import Callable, MutableMapping
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from heedful.nn.decoder import DecoderLayer
from heedful.nn.fast.linear import LEAST, onednn_is_faster
from heedful.nn.feedforward import ACTIVATIONS

LEAST_PACKED = 600_000  # multiplications from which oneDNN is faster with a packed weight
USUAL = 256  # rows that weights are packed for
NEVER = 2**62  # more rows than there ever are


class Map(NamedTuple):
    """x Wᵀ + b"""

    weight: Tensor  # (O, I)
    packed: Tensor  # the same as oneDNN reads it fastest
    bias: Tensor  # (O,)
    least: int  # rows from which oneDNN computes it


class Normalisation(NamedTuple):
    """A LayerNorm."""

    weight: Tensor  # (D,)
    bias: Tensor  # (D,)


class LayerWeights(NamedTuple):
    """The weights of a decoder layer."""

    project_self: Map  # W_Q, W_K, W_V
    out_self: Map
    query_cross: Map
    out_cross: Map
    feed_in: Map
    feed_out: Map
    norm_self: Normalisation
    norm_cross: Normalisation
    norm_feed: Normalisation


class LayerKeys(NamedTuple):
    """Keys and values in a layer: (S · H, ≥ N, K or V)"""

    key: Tensor
    value: Tensor


class Layout(NamedTuple):
    """What all layers have in common."""

    heads: int
    width: int  # H · K
    beam: int
    pre: bool  # LayerNorm before each sub-layer
    epsilon: float
    activation: str


def without_python(function: Callable) -> Callable:  # type: ignore[type-arg]  # of any arguments
    """The function as TorchScript runs it, or itself where there is no TorchScript or it does not understand the function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated
            return torch.jit.script(function)  # type: ignore[no-any-return]
    except Exception:  # of many kinds; all mean that it cannot, and the function itself is always right
        return function


@cache
def layers_function() -> Callable[..., Tensor]:
    """`run_layers`, compiled once."""
    return without_python(run_layers)


def map_of(weight: Tensor, bias: Tensor, rows: int = 0) -> Map:
    """A linear map without gradients; which library computes it is decided here, once.

    With `rows`, only the first rows of the weight, or zeros after its own; the bias has as many.
    """
    rows = rows or len(weight)
    onednn = weight.dtype is torch.float32 and weight.device.type == "cpu" and onednn_is_faster()
    if not onednn or not counts_changes(weight):
        plain = resized(weight, rows)
        return Map(plain, plain, bias.detach(), math.ceil(LEAST / plain.numel()) if onednn else NEVER)
    kept = KEPT.get(weight)
    if kept is None or kept.version != weight._version:
        kept = KEPT[weight] = Kept(weight._version, {})
    if rows not in kept.weights:
        plain = resized(weight, rows)
        kept.weights[rows] = plain, torch.ops.mkldnn._reorder_linear_weight(plain.contiguous(), USUAL)
    plain, packed = kept.weights[rows]
    return Map(plain, packed, bias.detach(), math.ceil(LEAST_PACKED / plain.numel()))


class Kept(NamedTuple):
    """What was made of a weight, by the number of rows: plain and packed."""

    version: int
    weights: dict[int, tuple[Tensor, Tensor]]


KEPT: MutableMapping[Tensor, Kept] = WeakTensorKeyDictionary()  # until the weight changes or is gone


def counts_changes(weight: Tensor) -> bool:
    """Whether `_version` counts every change of a weight: not if it is a part of the flat tensor that a training changes."""
    return not weight.is_inference() and weight.untyped_storage().nbytes() == weight.nbytes


def resized(weight: Tensor, rows: int) -> Tensor:
    """The first rows of a weight, or zeros after its own."""
    first = weight.detach()[:rows]
    return F.pad(first, (0, 0, 0, rows - len(first))) if rows > len(first) else first


def weights_of(layer: DecoderLayer) -> LayerWeights:
    """The weights of a decoder layer."""
    own, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
    width = cross.widths[0]
    arounds = layer.around_self, layer.around_cross, layer.around_feed
    return LayerWeights(
        map_of(own.project_in.weight, own.project_in.bias),
        map_of(own.project_out.weight, own.project_out.bias),
        map_of(cross.project_in.weight, cross.project_in.bias[:width], width),
        map_of(cross.project_out.weight, cross.project_out.bias),
        map_of(feed.project_in.weight, feed.project_in.bias),
        map_of(feed.project_out.weight, feed.project_out.bias),
        *(Normalisation(around.norm.weight.detach(), around.norm.bias.detach()) for around in arounds),
    )


def layout_of(layer: DecoderLayer, beam: int) -> Layout:
    """What all layers like this one have in common."""
    own, around = layer.self_attention, layer.around_self
    name = next(name for name, function in ACTIVATIONS.items() if function is layer.feed_forward.activation)
    return Layout(own.heads, own.widths[0], beam, around.pre, around.norm.eps, name)


def apply(found: Map, x: Tensor) -> Tensor:
    """x Wᵀ + b: (R, I) → (R, O)"""
    if x.size(0) < found.least:
        return torch.addmm(found.bias, x, found.weight.t())
    return torch.ops.mkldnn._linear_pointwise(x, found.packed, found.bias, "none", [], "")  # type: ignore[no-any-return]


def apply_and_activate(found: Map, x: Tensor, activation: str) -> Tensor:
    """The activation of x Wᵀ + b: (R, I) → (R, O)"""
    if activation == "relu":
        if x.size(0) < found.least:
            return torch.addmm(found.bias, x, found.weight.t()).relu_()
        return torch.ops.mkldnn._linear_pointwise(x, found.packed, found.bias, "relu", [], "")  # type: ignore[no-any-return]
    y = apply(found, x)
    if activation == "silu":
        return F.silu(y)
    return F.gelu(y, approximate="tanh" if activation == "gelu-tanh" else "none")


def apply_and_add(found: Map, x: Tensor, total: Tensor) -> Tensor:
    """total + x Wᵀ + b: (R, I), (R, O) → (R, O)"""
    if x.size(0) < found.least:
        return torch.addmm(found.bias, x, found.weight.t()).add_(total)
    return torch.ops.mkldnn._linear_pointwise(x, total, found.packed, found.bias, "add")  # type: ignore[no-any-return]


def normed(norm: Normalisation, x: Tensor, epsilon: float) -> Tensor:
    """LayerNorm(x)"""
    return torch.layer_norm(x, [x.size(1)], norm.weight, norm.bias, epsilon)


def run_layers(
    x: Tensor,
    layers: list[LayerWeights],
    target: list[LayerKeys],
    columns: int,
    path: Tensor | None,
    rotation: Tensor | None,
    sources: list[list[LayerKeys]],
    masks: list[Tensor],
    layout: Layout,
) -> Tensor:
    """Embedded tokens (R, D) → states (R, D); the keys and values of each layer are written into `target` at `columns`.

    `path` (S, 1, B, N) is 0 on the keys that a hypothesis attends to and −∞ on others, or there is none if it attends to all.
    `rotation` (R, 1, K/2) is that of rotary positions. Sources are in groups of some length each, with masks (S, 1, 1, L).
    """
    for index, weights in enumerate(layers):
        y = normed(weights.norm_self, x, layout.epsilon) if layout.pre else x
        heads = attend_to_target(apply(weights.project_self, y), target[index], columns, path, rotation, layout)
        x = apply_and_add(weights.out_self, heads, x)
        x = y = x if layout.pre else normed(weights.norm_self, x, layout.epsilon)
        if layout.pre:
            y = normed(weights.norm_cross, x, layout.epsilon)
        heads = attend_to_sources(apply(weights.query_cross, y), sources[index], masks, layout)
        x = apply_and_add(weights.out_cross, heads, x)
        x = y = x if layout.pre else normed(weights.norm_cross, x, layout.epsilon)
        if layout.pre:
            y = normed(weights.norm_feed, x, layout.epsilon)
        x = apply_and_add(weights.feed_out, apply_and_activate(weights.feed_in, y, layout.activation), x)
        x = x if layout.pre else normed(weights.norm_feed, x, layout.epsilon)
    return x


def attend_to_target(
    projected: Tensor, keys: LayerKeys, columns: int, path: Tensor | None, rotation: Tensor | None, layout: Layout
) -> Tensor:
    """Self-attention of queries, keys and values (R, all widths) → (R, H · V); keys and values are written at `columns`."""
    rows, both = projected.size(0), 2 * layout.width
    query, key, value = projected[:, : layout.width], projected[:, layout.width : both], projected[:, both:]
    if rotation is not None:
        turned = projected
        if projected.size(1) % 2 == 1:  # a complex number begins at an even place
            turned = projected[:, :both].contiguous()
        pairs = torch.view_as_complex(turned[:, :both].view(rows, 2 * layout.heads, -1, 2))
        pairs.mul_(rotation.to(pairs.dtype))
        query, key = turned[:, : layout.width], turned[:, layout.width : both]
    end = columns + layout.beam
    write_columns(keys.key, key, columns, layout)
    write_columns(keys.value, value, columns, layout)
    return attend(query, keys.key[:, :end], keys.value[:, :end], path, layout)


def write_columns(buffer: Tensor, new: Tensor, columns: int, layout: Layout) -> None:
    """Write the keys or values (R, H · K) of the newest tokens into a buffer (S · H, ≥ N, K) at `columns`."""
    heads, beam, width = layout.heads, layout.beam, buffer.size(2)
    room = buffer.view(-1, heads, buffer.size(1), width)[:, :, columns : columns + beam]
    room.copy_(new.view(-1, beam, heads, width).transpose(1, 2))


def attend_to_sources(query: Tensor, groups: list[LayerKeys], masks: list[Tensor], layout: Layout) -> Tensor:
    """Cross-attention of queries (R, H · K) → (R, H · V), over the sources of each group."""
    if len(groups) == 1:
        return attend(query, groups[0].key, groups[0].value, masks[0], layout)
    found: list[Tensor] = []
    first = 0
    for keys, mask in zip(groups, masks):  # noqa: B905  # TorchScript's zip has no strict
        last = first + mask.size(0) * layout.beam
        found.append(attend(query[first:last], keys.key, keys.value, mask, layout))
        first = last
    return torch.cat(found)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, layout: Layout) -> Tensor:
    """Attention of queries (R, H · K) over keys and values (S · H, N, K or V); mask (S, 1, B or 1, N) → (R, H · V)."""
    rows, beam, heads, width = query.size(0), layout.beam, layout.heads, key.size(2)
    if beam == 1:
        query = query.reshape(rows * heads, 1, width)  # (S · H, B, K)
    else:
        query = query.view(-1, beam, heads, width).transpose(1, 2).reshape(-1, beam, width)
    scores = torch.bmm(query, key.transpose(1, 2)).mul_(width**-0.5)  # (S · H, B, N)
    if mask is not None:
        scores.view(-1, heads, beam, key.size(1)).add_(mask)
    attended = torch.bmm(torch.softmax(scores, -1, out=scores), value)  # (S · H, B, V)
    if beam == 1:
        return attended.view(rows, heads * value.size(2))
    return attended.view(-1, heads, beam, value.size(2)).transpose(1, 2).reshape(rows, heads * value.size(2))
