"""How far information travels, where the answer is known."""

from __future__ import annotations

import math

import pytest
import torch

from heedful.complexity.layers import LAYERS, LayerShape, small_attention
from heedful.complexity.reach import longest_path, reached, recurrent, stacked
from heedful.nn.recurrent import build_cells, run_cells

WINDOW = 4
SHAPE = LayerShape(8, 2, 3, small_attention(WINDOW))


def path(layer: str, length: int) -> int | None:
    found = LAYERS[layer]
    return longest_path(found.steps(SHAPE, length), length, SHAPE.width, found.directed)


@pytest.mark.parametrize("length", [1, 7, 16, 33, 65])
@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("full", lambda n: 1),
        ("full-stored", lambda n: 1),
        ("gru", lambda n: n),
        ("lstm", lambda n: n),
        ("convolution", lambda n: max(1, n - 1)),  # one position to either side per layer
        ("convolution-dilated", lambda n: max(1, math.ceil(math.log(n, 3) - 1e-9))),
        ("window", lambda n: max(1, math.ceil((n - 1) / WINDOW))),
        ("longformer", lambda n: 1 if n <= WINDOW + 1 else 2),  # by way of the global token
        ("linformer", lambda n: 1),
    ],
)
def test_the_longest_path_of_a_layer_is_the_known_one(layer: str, expected: object, length: int) -> None:
    assert callable(expected)
    assert path(layer, length) == expected(length)


def test_a_convolution_reaches_as_far_as_its_kernel() -> None:
    layer = LAYERS["convolution"]
    found = reached(layer.steps(LayerShape(8, 2, 5), 12), 2, 12, 8)
    at = torch.arange(12)
    assert torch.equal(found, (at[:, None] - at).abs() <= 4)


def test_a_recurrent_layer_sees_nothing_of_the_future() -> None:
    found = reached(LAYERS["gru"].steps(SHAPE, 10), 10, 10, 8)
    assert torch.equal(found, torch.ones(10, 10, dtype=torch.bool).tril())


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_as_many_steps_as_positions_give_the_recurrent_layer_itself(cell: str) -> None:
    cells = build_cells(cell, 6, 6)  # type: ignore[arg-type]
    x = torch.randn(3, 9, 6, dtype=torch.float64)
    steps = recurrent(cells)
    torch.testing.assert_close(steps(x, 9), run_cells(cells, x)[0])
    assert not torch.allclose(steps(x, 8)[:, -1], run_cells(cells, x)[0][:, -1])


def test_positions_that_no_stack_connects_are_told() -> None:
    def apart(x: torch.Tensor, count: int) -> torch.Tensor:
        return 2.0 * x

    assert longest_path(apart, 5, 3) is None


class Faint(torch.nn.Module):
    """Moves every position one to the right, hardly audibly."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1e-4 * torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]


def test_a_path_through_many_faint_layers_is_found() -> None:
    assert longest_path(stacked(lambda number: Faint()), 100, 3, directed=True) == 99  # 1e-4 ** 99 is 0 in every precision
