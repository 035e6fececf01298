"""Sequential operations are counted where the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from heedful.complexity.layers import LAYERS, LayerShape
from heedful.complexity.steps import sequential_steps


class Chain(nn.Module):
    """Multiplies `count` times, one product after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.count):
            x = x * 2
        return x


class Blocks(nn.Module):
    """Each position by itself, written into one result: as many operations as positions, but none needs another."""

    def forward(self, x: Tensor) -> Tensor:
        result = torch.zeros_like(x)
        for position in range(x.size(1)):
            result[:, position] = x[:, position] * 2
        return result


@pytest.mark.parametrize("count", [1, 5])
def test_every_operation_that_needs_the_one_before_counts(count: int) -> None:
    assert sequential_steps(Chain(count), torch.randn(1, 3, 2)) == count


def test_operations_side_by_side_count_once() -> None:
    assert sequential_steps(Blocks(), torch.randn(1, 3, 2)) == sequential_steps(Blocks(), torch.randn(1, 9, 2)) == 2


def test_views_and_complex_parts_are_followed() -> None:
    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            pairs = torch.view_as_complex((x * 2).unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * 1j).flatten(-2).transpose(0, 1)

    assert sequential_steps(Turned(), torch.randn(1, 3, 4)) == 2


@pytest.mark.parametrize("name", ["full", "full-stored", "convolution", "convolution-dilated"])
def test_attention_and_convolution_take_as_many_steps_for_any_length(name: str) -> None:
    short, long = (sequential_steps(LAYERS[name].build(LayerShape(8, 2), n, 0), torch.randn(1, n, 8)) for n in (5, 40))
    assert 0 < short == long


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_cells_take_steps_for_every_position(name: str) -> None:
    few, some, more = (sequential_steps(LAYERS[name].build(LayerShape(8, 2), n, 0), torch.randn(1, n, 8)) for n in (10, 20, 30))
    assert more - some == some - few >= 10 * 3
