"""An ONNX graph written node by node: the few operations that our models are made of.

Shapes: B batch, H heads, L length (Lq queries, Lk keys), D d_model, K d_k. Masks are boolean; True may attend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

OPSET, IR_VERSION = 17, 8  # understood since 2022
LARGE = 2**30  # bytes of weights from which they go into a separate file; protobuf is limited to 2 GB
LOWEST = np.finfo(np.float32).min
Weights = Mapping[str, Tensor]


class Graph:
    """Nodes, weights, inputs and outputs; values are known by their names."""

    def __init__(self, weights: Weights, share: bool = True) -> None:
        """Without `share`, a matrix that is embedding and output is stored twice, as the quantiser needs it."""
        self.weights, self.share = weights, share
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[np.generic]] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, kind: str, shape: Sequence[str | int]) -> str:
        """A value given by the caller; lengths that vary have names."""
        from onnx import TensorProto, helper

        self.inputs.append(helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape))
        return name

    def output(self, name: str, value: str, shape: Sequence[str | int]) -> None:
        """A value for the caller, under a name of its own."""
        from onnx import TensorProto, helper

        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"/{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result."""
        from onnx import helper

        result = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], name=f"/{result}", **attributes))
        return result

    def constant(self, value: Any, kind: Any = np.float32, name: str = "") -> str:
        """A constant; equal constants are stored once."""
        array = np.asarray(value, dtype=kind)
        name = name or f"constant_{array.dtype}_{array.shape}_{array.tobytes().hex()}"[:80]
        while name in self.constants and not np.array_equal(self.constants[name], array):
            name += "'"
        self.constants[name] = array
        return name

    def weight(self, name: str, transposed: bool = False) -> str:
        """A weight of our model."""
        array = self.weights[name].detach().float().numpy()
        return self.constant(np.ascontiguousarray(array.T if transposed else array), name=f"{name}{'.T' if transposed else ''}")

    def linear(self, x: str, name: str, rows: slice | None = None) -> str:
        """x Wᵀ + b, or with some rows of W and b only."""
        weight, bias = (self.weights[f"{name}.{part}"].detach().float() for part in ("weight", "bias"))
        part = "" if rows is None else f"[{rows.start}:{rows.stop}]"
        if rows is not None:
            weight, bias = weight[rows], bias[rows]
        product = self.op("MatMul", x, self.constant(weight.T.contiguous().numpy(), name=f"{name}.weight{part}.T"))
        return self.op("Add", product, self.constant(bias.numpy(), name=f"{name}.bias{part}"))

    def norm(self, x: str, name: str, epsilon: float) -> str:
        """LayerNorm over the last dimension."""
        return self.op(
            "LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), axis=-1, epsilon=epsilon
        )

    def project(self, states: str, weight: str, bias: str | None = None) -> str:
        """States (…, D) → logits (…, V), with a matrix (V, D) that an embedding may share."""
        if not self.share:
            logits = self.op("MatMul", states, self.weight(weight, transposed=True))
            return self.op("Add", logits, self.weight(bias)) if bias else logits
        size, width = self.weights[weight].shape
        rows = self.op("Reshape", states, self.constant([-1, width], np.int64))
        logits = self.op("Gemm", rows, self.weight(weight), *([self.weight(bias)] if bias else []), transB=1)
        lead = self.op("Slice", self.op("Shape", states), *(self.constant([at], np.int64) for at in (0, -1)))
        return self.op("Reshape", logits, self.op("Concat", lead, self.constant([size], np.int64), axis=0))

    def activate(self, x: str, activation: str) -> str:
        """The activation of a feed-forward network."""
        if activation == "relu":
            return self.op("Relu", x)
        if activation == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if activation == "gelu":
            inner = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        else:  # gelu-tanh
            cube = self.op("Mul", self.op("Mul", x, self.op("Mul", x, x)), self.constant(0.044715))
            inner = self.op("Tanh", self.op("Mul", self.op("Add", x, cube), self.constant(math.sqrt(2 / math.pi))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", inner, self.constant(1.0))), self.constant(0.5))

    def size(self, x: str, axis: int) -> str:
        """The size of a dimension, as a scalar."""
        return self.op("Gather", self.op("Shape", x), self.constant(axis, np.int64))

    def split_heads(self, x: str, heads: int, width: int) -> str:
        """(B, L, H·K) → (B, H, L, K)"""
        return self.op("Transpose", self.op("Reshape", x, self.constant([0, 0, heads, width], np.int64)), perm=[0, 2, 1, 3])

    def attend(self, query: str, key: str, value: str, width: int, mask: str | None, bias: str | None, d_v: int) -> str:
        """softmax(Q Kᵀ / √K + bias) V with heads side by side: (B, Lq, H·V); the mask broadcasts to (B, H, Lq, Lk)."""
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(1 / math.sqrt(width)))
        if bias:
            scores = self.op("Add", scores, bias)
        if mask:
            scores = self.op("Where", mask, scores, self.constant(LOWEST))
        heads = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        return self.op("Reshape", self.op("Transpose", heads, perm=[0, 2, 1, 3]), self.constant([0, 0, d_v], np.int64))

    def positions(self, start: str, count: str) -> str:
        """start, start + 1, … (count,) as whole numbers."""
        return self.op("Range", start, self.op("Add", start, count), self.constant(1, np.int64))

    def causal(self, query_at: str, keys: str) -> str:
        """Mask (Lq, Lk): a query sees no later key; keys are at 0, 1, …"""
        key_at = self.positions(self.constant(0, np.int64), keys)
        return self.op("LessOrEqual", key_at, self.column(query_at))

    def column(self, x: str) -> str:
        """(L,) → (L, 1)"""
        return self.op("Unsqueeze", x, self.constant([-1], np.int64))

    def over_keys(self, mask: str) -> str:
        """Mask (B, L) → (B, 1, 1, L)"""
        return self.op("Unsqueeze", mask, self.constant([1, 2], np.int64))

    def save(self, path: Path) -> None:
        """Write the graph to a file; very large weights beside it."""
        import onnx
        from onnx import helper, numpy_helper

        stored = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, self.outputs, stored)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="heedful", opset_imports=opsets, ir_version=IR_VERSION)
        large = sum(array.nbytes for array in self.constants.values()) > LARGE
        if not large:
            onnx.checker.check_model(model)
        onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.stem}.weights")
