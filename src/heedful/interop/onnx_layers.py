"""The layers of our Transformers as ONNX nodes: positions, attention, encoder and decoder layers.

Shapes: B batch, H heads, L length, D d_model, K d_k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.interop.onnx_graph import Graph
from heedful.nn.positions import LinearBias, RotaryPositions


@dataclass(frozen=True)
class Shape:
    """What the layers of a model have in common."""

    heads: int
    d_k: int
    d_v: int
    activation: str
    pre: bool  # pre-norm
    epsilon: float
    positions: str = "none"  # inside self-attention

    @classmethod
    def of(cls, config: Any) -> Shape:
        """The shape of a model."""
        usual = config.d_model // config.heads
        return cls(
            config.heads,
            getattr(config, "d_k", None) or usual,
            getattr(config, "d_v", None) or usual,
            config.activation,
            getattr(config, "norm", "pre" if hasattr(config, "patch") else "post") == "pre",
            getattr(config, "epsilon", 1e-5),
            getattr(config, "positions", "none"),
        )


def embed(graph: Graph, tokens: str, matrix: str, config: Any, at: str, table: str, scale: float = 1.0) -> str:
    """Token embeddings with the positions `at` that are added to them: (B, L, D)."""
    x = graph.op("Gather", graph.weight(matrix), tokens)
    if scale != 1.0:
        x = graph.op("Mul", x, graph.constant(scale))
    if config.positions == "sinusoidal":
        # In double precision, because the rounding error of a frequency is multiplied by the position.
        even = np.arange(0, config.d_model, 2, dtype=np.float64)
        frequencies = np.exp(even * (-math.log(10000.0) / config.d_model))
        double = graph.column(graph.op("Cast", at, to=11))
        angle = graph.op("Mul", double, graph.constant(frequencies, np.float64))  # (L, D/2)
        sine = graph.op("Sin", angle)
        cosine = graph.op("Sin", graph.op("Add", angle, graph.constant(math.pi / 2, np.float64)))
        pairs = graph.op("Concat", graph.column(sine), graph.column(cosine), axis=-1)
        waves = graph.op("Reshape", pairs, graph.constant([0, -1], np.int64))
        waves = graph.op("Slice", waves, *(graph.constant([n], np.int64) for n in (0, config.d_model, 1)))
        x = graph.op("Add", x, graph.op("Cast", waves, to=1))
    elif config.positions == "learned":
        last = graph.constant(graph.weights[table].size(0) - 1, np.int64)
        x = graph.op("Add", x, graph.op("Gather", graph.weight(table), graph.op("Min", at, last)))
    return x


def rotate(graph: Graph, x: str, at: str, d_k: int) -> str:
    """Rotary positions of queries or keys (B, H, L, K)."""
    frequencies = graph.constant(RotaryPositions(d_k).frequencies.numpy())
    angle = graph.op("Mul", graph.column(graph.op("Cast", at, to=1)), frequencies)  # (L, K/2)
    cosine, sine = graph.column(graph.op("Cos", angle)), graph.column(graph.op("Sin", angle))  # (L, K/2, 1)
    pairs = graph.op("Reshape", x, graph.constant([0, 0, 0, d_k // 2, 2], np.int64))
    first, second = (
        graph.op("Slice", pairs, *(graph.constant([n], np.int64) for n in (start, start + 1, 4))) for start in (0, 1)
    )
    turned = (
        graph.op("Sub", graph.op("Mul", first, cosine), graph.op("Mul", second, sine)),
        graph.op("Add", graph.op("Mul", first, sine), graph.op("Mul", second, cosine)),
    )
    return graph.op("Reshape", graph.op("Concat", *turned, axis=-1), graph.constant([0, 0, 0, d_k], np.int64))


def position_bias(graph: Graph, shape: Shape, query: str, at: str, keys: str, name: str) -> str | None:
    """The bias added to the scores of keys 0, 1, … for queries `at`."""
    if shape.positions not in ("linear-bias", "relative"):
        return None
    key_at = graph.positions(graph.constant(0, np.int64), keys)
    distance = graph.op("Sub", graph.column(at), key_at)  # (Lq, Lk)
    if shape.positions == "linear-bias":
        behind = graph.op("Cast", distance, to=1)
        ahead = graph.op("Mul", behind, graph.constant(-1.5))
        counted = graph.op("Where", graph.op("Less", behind, graph.constant(0.0)), ahead, behind)
        slopes = LinearBias(shape.heads).slopes.numpy().reshape(1, -1, 1, 1)
        return graph.op("Mul", counted, graph.constant(-slopes))
    table = graph.weights[f"{name}.positions.table"]
    furthest = (table.size(0) - 1) // 2
    by_distance = graph.op("MatMul", query, graph.weight(f"{name}.positions.table", transposed=True))
    by_distance = graph.op("Mul", by_distance, graph.constant(1 / math.sqrt(shape.d_k)))
    limits = (graph.constant(number, np.int64) for number in (-furthest, furthest))
    index = graph.op("Add", graph.op("Clip", distance, *limits), graph.constant(furthest, np.int64))
    lead = graph.op("Slice", graph.op("Shape", query), *(graph.constant([n], np.int64) for n in (0, 2)))
    whole = graph.op("Concat", lead, graph.op("Shape", index), axis=0)
    return graph.op("GatherElements", by_distance, graph.op("Expand", index, whole), axis=-1)


def self_attention(
    graph: Graph, x: str, shape: Shape, name: str, at: str, mask: str | None, past: tuple[str, str] | None = None
) -> tuple[str, str, str]:
    """Self-attention of x (B, L, D) at the positions `at` → output, keys and values, those of the past included."""
    widths = (shape.heads * shape.d_k, shape.heads * shape.d_k, shape.heads * shape.d_v)
    parts, start = [], 0
    for width, each in zip(widths, (shape.d_k, shape.d_k, shape.d_v), strict=True):
        part = graph.linear(x, f"{name}.project_in", slice(start, start + width))
        parts.append(graph.split_heads(part, shape.heads, each))
        start += width
    query, key, value = parts
    if shape.positions == "rotary":
        query, key = rotate(graph, query, at, shape.d_k), rotate(graph, key, at, shape.d_k)
    if past:
        key, value = graph.op("Concat", past[0], key, axis=2), graph.op("Concat", past[1], value, axis=2)
    bias = position_bias(graph, shape, query, at, graph.size(key, 2), name)
    heads = graph.attend(query, key, value, shape.d_k, mask, bias, widths[2])
    return graph.linear(heads, f"{name}.project_out"), key, value


def source_keys(graph: Graph, memory: str, shape: Shape, name: str) -> tuple[str, str]:
    """Keys and values of a memory (B, L, D) for a cross-attention."""
    first, second = shape.heads * shape.d_k, 2 * shape.heads * shape.d_k
    key = graph.linear(memory, f"{name}.project_in", slice(first, second))
    value = graph.linear(memory, f"{name}.project_in", slice(second, second + shape.heads * shape.d_v))
    return graph.split_heads(key, shape.heads, shape.d_k), graph.split_heads(value, shape.heads, shape.d_v)


def cross_attention(graph: Graph, x: str, shape: Shape, name: str, keys: tuple[str, str], mask: str) -> str:
    """Cross-attention of x (B, L, D) over keys and values of a source."""
    query = graph.linear(x, f"{name}.project_in", slice(0, shape.heads * shape.d_k))
    query = graph.split_heads(query, shape.heads, shape.d_k)
    heads = graph.attend(query, *keys, shape.d_k, mask, None, shape.heads * shape.d_v)
    return graph.linear(heads, f"{name}.project_out")


def before(graph: Graph, x: str, shape: Shape, name: str) -> str:
    """The input of a sub-layer."""
    return graph.norm(x, f"{name}.norm", shape.epsilon) if shape.pre else x


def after(graph: Graph, x: str, y: str, shape: Shape, name: str) -> str:
    """x plus the output y of a sub-layer."""
    total = graph.op("Add", x, y)
    return total if shape.pre else graph.norm(total, f"{name}.norm", shape.epsilon)


def feed_forward(graph: Graph, x: str, shape: Shape, name: str) -> str:
    """The feed-forward sub-layer of a layer, with its residual connection."""
    y = graph.linear(before(graph, x, shape, f"{name}.around_feed"), f"{name}.feed_forward.project_in")
    y = graph.linear(graph.activate(y, shape.activation), f"{name}.feed_forward.project_out")
    return after(graph, x, y, shape, f"{name}.around_feed")


def encoder_layer(
    graph: Graph, x: str, shape: Shape, name: str, at: str, mask: str | None, past: tuple[str, str] | None = None
) -> tuple[str, str, str]:
    """An encoder layer → its output, keys and values."""
    y, key, value = self_attention(
        graph, before(graph, x, shape, f"{name}.around_self"), shape, f"{name}.self_attention", at, mask, past
    )
    return feed_forward(graph, after(graph, x, y, shape, f"{name}.around_self"), shape, name), key, value


def decoder_layer(
    graph: Graph,
    x: str,
    shape: Shape,
    name: str,
    at: str,
    mask: str,
    past: tuple[str, str],
    source: tuple[str, str],
    source_mask: str,
) -> tuple[str, str, str]:
    """A decoder layer → its output, keys and values of the target."""
    y, key, value = self_attention(
        graph, before(graph, x, shape, f"{name}.around_self"), shape, f"{name}.self_attention", at, mask, past
    )
    x = after(graph, x, y, shape, f"{name}.around_self")
    y = cross_attention(
        graph, before(graph, x, shape, f"{name}.around_cross"), shape, f"{name}.cross_attention", source, source_mask
    )
    return feed_forward(graph, after(graph, x, y, shape, f"{name}.around_cross"), shape, name), key, value


def final_norm(graph: Graph, x: str, shape: Shape, name: str) -> str:
    """The LayerNorm after a pre-norm stack."""
    return graph.norm(x, f"{name}.norm", shape.epsilon) if shape.pre else x
