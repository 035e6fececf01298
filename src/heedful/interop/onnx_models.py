"""Our models as ONNX graphs: an encoder and a decoder step for translation, one graph for every other kind.

Shapes: B batch, L source length, T new target tokens, P earlier ones, H heads, K d_k, V d_v.
"""

from __future__ import annotations

import math

import numpy as np

from heedful.interop.onnx_graph import Graph, Weights
from heedful.interop.onnx_layers import (
    Shape,
    cross_attention,
    decoder_layer,
    embed,
    encoder_layer,
    final_norm,
    source_keys,
)
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.models.vit import ViTConfig


def matrix_of(weights: Weights, name: str) -> str:
    """The name under which an embedding matrix is stored, which may be that of the output."""
    return f"{name}.weight" if f"{name}.weight" in weights else "output_weight"


def encoder_graph(config: Seq2SeqConfig, weights: Weights, share: bool = True) -> Graph:
    """tokens (B, L), mask (B, L) → the keys and values of the source in every decoder layer."""
    graph, shape = Graph(weights, share), Shape.of(config)
    tokens = graph.input("tokens", "INT64", ["batch", "source"])
    mask = graph.over_keys(graph.input("mask", "BOOL", ["batch", "source"]))
    at = graph.positions(graph.constant(0, np.int64), graph.size(tokens, 1))
    scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    matrix = matrix_of(weights, "source_embedding")
    x = embed(graph, tokens, matrix, config, at, "source_embedding.positions.table", scale)
    layers = []
    for number in range(config.layers):
        x, _, _ = encoder_layer(graph, x, shape, f"encoder.layers.{number}", at, mask)
        if config.reads != "last" or number == config.layers - 1:
            layers.append(final_norm(graph, x, shape, "encoder"))
    for number in range(config.depth):
        memory = layers[number if config.reads == "layerwise" else -1]
        if config.reads == "mix":
            shares = weights[f"mixes.{number}.scores"].softmax(0).tolist()
            parts = [graph.op("Mul", layer, graph.constant(share)) for layer, share in zip(layers, shares, strict=True)]
            memory = graph.op("Sum", *parts)
        key, value = source_keys(graph, memory, shape, f"decoder.layers.{number}.cross_attention")
        graph.output(f"source_key_{number}", key, ["batch", shape.heads, "source", shape.d_k])
        graph.output(f"source_value_{number}", value, ["batch", shape.heads, "source", shape.d_v])
    return graph


def pasts(graph: Graph, shape: Shape, layers: int) -> list[tuple[str, str]]:
    """Inputs: keys and values of the earlier tokens in every layer."""
    return [
        (
            graph.input(f"past_key_{number}", "FLOAT", ["batch", shape.heads, "past", shape.d_k]),
            graph.input(f"past_value_{number}", "FLOAT", ["batch", shape.heads, "past", shape.d_v]),
        )
        for number in range(layers)
    ]


def decoder_graph(config: Seq2SeqConfig, weights: Weights, share: bool = True) -> Graph:
    """tokens (B, T), mask (B, L), source and past keys and values → logits (B, target_vocab) after the last token, and the
    keys and values that are the past of the next step."""
    graph, shape = Graph(weights, share), Shape.of(config)
    tokens = graph.input("tokens", "INT64", ["batch", "new"])
    source_mask = graph.over_keys(graph.input("mask", "BOOL", ["batch", "source"]))
    sources = [
        (
            graph.input(f"source_key_{number}", "FLOAT", ["batch", shape.heads, "source", shape.d_k]),
            graph.input(f"source_value_{number}", "FLOAT", ["batch", shape.heads, "source", shape.d_v]),
        )
        for number in range(config.depth)
    ]
    past = pasts(graph, shape, config.depth)
    start, count = graph.size(past[0][0], 2), graph.size(tokens, 1)
    at = graph.positions(start, count)
    mask = graph.causal(at, graph.op("Add", start, count))
    scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    matrix = matrix_of(weights, "target_embedding")
    x = embed(graph, tokens, matrix, config, at, "target_embedding.positions.table", scale)
    kept = []
    for number in range(config.depth):
        name = f"decoder.layers.{number}"
        x, *keys = decoder_layer(graph, x, shape, name, at, mask, past[number], sources[number], source_mask)
        kept.append(keys)
    last = graph.op("Gather", final_norm(graph, x, shape, "decoder"), graph.constant(-1, np.int64), axis=1)
    graph.output("logits", graph.project(last, "output_weight", "output_bias"), ["batch", config.target_vocab])
    write_keys(graph, shape, kept)
    return graph


def write_keys(graph: Graph, shape: Shape, kept: list[list[str]]) -> None:
    """Outputs: keys and values of all tokens so far in every layer."""
    for number, (key, value) in enumerate(kept):
        graph.output(f"key_{number}", key, ["batch", shape.heads, "all", shape.d_k])
        graph.output(f"value_{number}", value, ["batch", shape.heads, "all", shape.d_v])


def gpt_graph(config: GPTConfig, weights: Weights, share: bool = True) -> Graph:
    """tokens (B, T), past keys and values → logits (B, T, vocab), and the keys and values that are the next past."""
    graph, shape = Graph(weights, share), Shape.of(config)
    tokens = graph.input("tokens", "INT64", ["batch", "new"])
    past = pasts(graph, shape, config.layers)
    start, count = graph.size(past[0][0], 2), graph.size(tokens, 1)
    at = graph.positions(start, count)
    mask = graph.causal(at, graph.op("Add", start, count))
    x = embed(graph, tokens, matrix_of(weights, "embedding"), config, at, "embedding.positions.table")
    kept = []
    for number in range(config.layers):
        x, *keys = encoder_layer(graph, x, shape, f"encoder.layers.{number}", at, mask, past[number])
        kept.append(keys)
    logits = graph.project(final_norm(graph, x, shape, "encoder"), "output_weight")
    graph.output("logits", logits, ["batch", "new", config.vocab])
    write_keys(graph, shape, kept)
    return graph


def bert_graph(config: BertConfig, weights: Weights, share: bool = True) -> Graph:
    """tokens, segments and mask (B, L) → the output of the head: `logits`, for pre-training also those of `next_sentence`, or
    `states` (B, L, D)."""
    graph, shape = Graph(weights, share), Shape.of(config)
    tokens = graph.input("tokens", "INT64", ["batch", "length"])
    segments = graph.input("segments", "INT64", ["batch", "length"])
    given = graph.input("mask", "BOOL", ["batch", "length"])
    at = graph.positions(graph.constant(0, np.int64), graph.size(tokens, 1))
    x = graph.op("Gather", graph.weight("embedding.weight"), tokens)
    x = graph.op("Add", x, graph.op("Gather", graph.weight("embedding.positions.table"), at))
    x = graph.op("Add", x, graph.op("Gather", graph.weight("embedding.segments"), segments))
    x = graph.norm(x, "embedding.norm", config.epsilon)
    for number in range(config.layers):
        x, _, _ = encoder_layer(graph, x, shape, f"encoder.layers.{number}", at, graph.over_keys(given))
    if config.head == "none":
        graph.output("states", x, ["batch", "length", config.d_model])
    elif config.head == "token":
        graph.output("logits", graph.linear(x, "classifier"), ["batch", "length", config.classes])
    elif config.head == "sequence":
        graph.output("logits", class_logits(graph, x, shape, config.pooling, given), ["batch", config.classes])
    else:
        y = graph.activate(graph.linear(x, "masked_language.dense"), config.activation)
        y = graph.norm(y, "masked_language.norm", config.epsilon)
        logits = graph.project(y, "embedding.weight", "masked_language.bias")
        graph.output("logits", logits, ["batch", "length", config.vocab])
        follows = graph.linear(first_state(graph, x), "next_sentence")
        graph.output("next_sentence", follows, ["batch", 2])
    return graph


def first_state(graph: Graph, x: str) -> str:
    """States (B, L, D) → the pooler's output for the first one (B, D)."""
    first = graph.op("Gather", x, graph.constant(0, np.int64), axis=1)
    return graph.op("Tanh", graph.linear(first, "pooler"))


def class_logits(graph: Graph, x: str, shape: Shape, pooling: str, mask: str | None) -> str:
    """States (B, L, D), mask (B, L) → logits (B, classes)."""
    if pooling == "attention":
        queries = graph.op("Unsqueeze", graph.weight("pooling.queries"), graph.constant([0], np.int64))
        key, value = source_keys(graph, x, shape, "pooling.attention")
        over = graph.over_keys(mask) if mask else graph.constant([[[[True]]]], np.bool_)
        pooled = cross_attention(graph, queries, shape, "pooling.attention", (key, value), over)  # (B, classes, D)
        weighted = graph.op("Mul", pooled, graph.weight("classifier.weight"))
        scored = graph.op("ReduceSum", weighted, graph.constant([-1], np.int64), keepdims=0)
        return graph.op("Add", scored, graph.weight("classifier.bias"))
    if pooling == "mean":
        if mask is None:
            pooled = graph.op("ReduceMean", x, axes=[1], keepdims=0)
        else:
            real = graph.column(graph.op("Cast", mask, to=1))  # (B, L, 1)
            along = graph.constant([1], np.int64)
            pooled = graph.op(
                "Div",
                graph.op("ReduceSum", graph.op("Mul", x, real), along, keepdims=0),
                graph.op("ReduceSum", real, along, keepdims=0),
            )
        return graph.linear(pooled, "classifier")
    return graph.linear(first_state(graph, x), "classifier")


def vit_graph(config: ViTConfig, weights: Weights, share: bool = True) -> Graph:
    """images (B, C, H, W) of the size that the positions are learned for, in [−1, 1] → logits (B, classes)."""
    graph, shape = Graph(weights, share), Shape.of(config)
    side, patch, grid = config.image_size, config.patch, config.grid
    images = graph.input("images", "FLOAT", ["batch", config.channels, side, side])
    cut = graph.op("Reshape", images, graph.constant([0, config.channels, grid, patch, grid, patch], np.int64))
    rows = graph.op("Transpose", cut, perm=[0, 2, 4, 1, 3, 5])
    flat = graph.op("Reshape", rows, graph.constant([0, grid * grid, config.channels * patch * patch], np.int64))
    x = graph.linear(flat, "embedding.project")
    batch = graph.op("Slice", graph.op("Shape", images), *(graph.constant([n], np.int64) for n in (0, 1)))
    whole = graph.op("Concat", batch, graph.constant([1, config.d_model], np.int64), axis=0)
    x = graph.op("Concat", graph.op("Expand", graph.weight("embedding.cls"), whole), x, axis=1)
    x = graph.op("Add", x, graph.weight("embedding.positions"))
    at = graph.constant(np.arange(1 + grid * grid), np.int64)
    for number in range(config.layers):
        x, _, _ = encoder_layer(graph, x, shape, f"encoder.layers.{number}", at, None)
    x = final_norm(graph, x, shape, "encoder")
    if config.pooling == "cls":
        first = graph.op("Gather", x, graph.constant(0, np.int64), axis=1)
        logits = graph.linear(first, "classifier")
    else:
        patches = graph.op("Slice", x, *(graph.constant([n], np.int64) for n in (1, 2**31, 1)))
        logits = class_logits(graph, patches, shape, config.pooling, None)
    graph.output("logits", logits, ["batch", config.classes])
    return graph
