"""The layers that are compared: how to build each, and its theoretical cost and path length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from heedful.complexity.reach import Steps, recurrent, stacked
from heedful.nn.attention.kinds import ATTENTION_KINDS, AttentionKind, AttentionSettings
from heedful.nn.convolution import Convolution
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.recurrent import Cell, build_cells


@dataclass(frozen=True)
class LayerShape:
    """The size of a layer; each layer ignores the settings it does not have."""

    width: int  # D
    heads: int = 4
    kernel: int = 3  # k of a convolution
    attention: AttentionSettings = field(default_factory=AttentionSettings)  # settings of the attention kinds, such as the window


@dataclass(frozen=True)
class Theory:
    """Costs as stated in Table 1 or in the kind's own paper; the exponents are for length and width."""

    cost: str
    time: tuple[float, float]
    memory: tuple[float, float]
    sequential: str = "O(1)"
    path: str = "O(1)"


Builder = Callable[[LayerShape, int, int], nn.Module]  # (shape, length, i) → the i-th layer of a stack, (B, L, D) → (B, L, D)


@dataclass(frozen=True)
class LayerType:
    """One row of the table."""

    name: str
    build: Builder
    theory: Theory | None  # None for an attention kind that this file does not know
    directed: bool = False  # an output depends on earlier inputs only
    cell: Cell | None = None  # of a recurrent layer
    dense: bool = False  # keeps a weight for every pair of positions

    def steps(self, shape: LayerShape, length: int) -> Steps:
        """The layer's steps, for tracing how far information travels."""
        if self.cell is not None:
            return recurrent(build_cells(self.cell, shape.width, shape.width))
        return stacked(lambda number: self.build(shape, length, number))


class StoredWeights(nn.Module):
    """Full attention exactly as in Equation 1: the weights of every pair of positions are computed and kept."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        attended: Tensor = self.attention(x, return_weights=True)[0]
        return attended


class RecurrentLayer(nn.Module):
    """Left-to-right cells."""

    def __init__(self, cell: Cell, width: int) -> None:
        super().__init__()
        self.cells = build_cells(cell, width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, L, D) → (B, L, D)"""
        states: Tensor = self.cells(x)[0]
        return states


def attention(kind: AttentionKind) -> Builder:
    """A function that builds multi-head self-attention of a kind."""

    def build(shape: LayerShape, length: int, number: int) -> nn.Module:
        settings = replace(shape.attention, kind=kind, max_length=length, layer=number)
        return MultiHeadAttention(shape.width, shape.heads, settings=settings)

    return build


def small_attention(window: int) -> AttentionSettings:
    """Smaller settings of the kinds for short sequences, where the usual ones would see everything."""
    return AttentionSettings(
        window=window, attention_block=window, random_blocks=1, projected_length=2 * window, hash_buckets=4, hash_chunk=window
    )


LINEAR = (1, 1)
KIND_THEORY: Mapping[str, Theory] = {
    "window": Theory("O(r·L·D)", LINEAR, LINEAR, path="O(L/r)"),
    "longformer": Theory("O(r·L·D)", LINEAR, LINEAR),
    "bigbird": Theory("O(r·L·D)", LINEAR, LINEAR),
    "linformer": Theory("O(k·L·D)", LINEAR, LINEAR),
    "reformer": Theory("O(L·log L·D)", LINEAR, LINEAR, path="by hashing"),
}
FULL = Theory("O(L²·D)", (2, 1), (1, 1))
RECURRENT = Theory("O(L·D²)", (1, 2), (1, 1), "O(L)", "O(L)")

LAYERS: dict[str, LayerType] = {
    layer.name: layer
    for layer in (
        LayerType("full", attention("full"), FULL),
        LayerType(
            "full-stored",
            lambda shape, length, number: StoredWeights(MultiHeadAttention(shape.width, shape.heads)),
            Theory("O(L²·D)", (2, 1), (2, 0)),
            dense=True,
        ),
        LayerType("gru", lambda shape, length, number: RecurrentLayer("gru", shape.width), RECURRENT, True, "gru"),
        LayerType("lstm", lambda shape, length, number: RecurrentLayer("lstm", shape.width), RECURRENT, True, "lstm"),
        LayerType(
            "convolution",
            lambda shape, length, number: Convolution(shape.width, shape.kernel),
            Theory("O(k·L·D²)", (1, 2), (1, 1), path="O(L/k)"),
        ),
        LayerType(
            "convolution-dilated",
            lambda shape, length, number: Convolution(shape.width, shape.kernel, shape.kernel**number, causal=True),
            Theory("O(k·L·D²)", (1, 2), (1, 1), path="O(log_k L)"),
            directed=True,
        ),
        *(LayerType(kind, attention(kind), KIND_THEORY.get(kind)) for kind in ATTENTION_KINDS if kind != "full"),
    )
}
