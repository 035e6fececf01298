"""Where every parameter lies in one long vector, and which part of that vector each process updates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from heedful.training.muon import hidden_matrices

ALIGNED = 16  # float32 numbers per cache line: parts of Adam's vector begin at a multiple of it


@dataclass(frozen=True)
class MatrixStack:
    """Matrices of one shape that lie one after the other, so that Muon updates them with one batched product."""

    start: int
    count: int
    rows: int
    columns: int

    def part(self, first: int, last: int) -> slice:
        """Where some of the matrices lie in the vector."""
        size = self.rows * self.columns
        return slice(self.start + first * size, self.start + last * size)


@dataclass(frozen=True)
class FlatLayout:
    """Every parameter in the order of the vector: first the matrix stacks (Muon), then the rest (Adam)."""

    shapes: dict[str, list[int]]  # name → shape
    stacks: tuple[MatrixStack, ...]  # empty without Muon
    size: int

    @property
    def rest(self) -> slice:
        """What Adam updates."""
        last = self.stacks[-1] if self.stacks else None
        return slice(last.part(0, last.count).stop if last else 0, self.size)

    def slices(self) -> Iterator[tuple[str, slice]]:
        """Name and place of every parameter."""
        start = 0
        for name, shape in self.shapes.items():
            end = start + math.prod(shape)
            yield name, slice(start, end)
            start = end


def layout_of(model: nn.Module, muon: bool) -> FlatLayout:
    """The layout of a model's parameters; a shared matrix lies in it once."""
    hidden = hidden_matrices(model) if muon else {}  # name → (number, rows, columns)
    behind = (0, math.inf, math.inf)
    # A stable sort: parameters of the same shape, and all of Adam's, stay in the order of the model.
    parameters = sorted(model.named_parameters(), key=lambda item: hidden.get(item[0], behind)[1:])
    counts: Counter[tuple[int, int]] = Counter()
    for number, rows, columns in sorted(hidden.values(), key=lambda matrix: matrix[1:]):
        counts[rows, columns] += number
    stacks, start = [], 0
    for (rows, columns), number in counts.items():
        stacks.append(MatrixStack(start, number, rows, columns))
        start += number * rows * columns
    shapes = {name: list(parameter.shape) for name, parameter in parameters}
    return FlatLayout(shapes, tuple(stacks), sum(parameter.numel() for _, parameter in parameters))


@dataclass(frozen=True)
class Share:
    """What one process updates: some matrices of every stack, and a part of the rest."""

    stacks: tuple[tuple[MatrixStack, slice], ...]  # with the place of this process's matrices
    rest: slice

    @property
    def parts(self) -> list[slice]:
        return [*(part for _, part in self.stacks), self.rest]


def share_of(layout: FlatLayout, rank: int, world: int) -> Share:
    """This process's share of the updates when `world` processes divide them."""

    def divided(number: int, multiple: int = 1) -> tuple[int, int]:
        each = math.ceil(number / world / multiple) * multiple
        return min(number, rank * each), min(number, (rank + 1) * each)

    stacks = tuple((stack, stack.part(*divided(stack.count))) for stack in layout.stacks)
    first, last = divided(layout.rest.stop - layout.rest.start, ALIGNED)
    return Share(stacks, slice(layout.rest.start + first, layout.rest.start + last))
