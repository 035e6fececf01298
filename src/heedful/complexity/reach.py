"""How far information travels: which inputs influence which outputs after n steps, found by tracing gradients.

A step is one layer of a stack, or one application of a recurrent cell: what Table 1 counts as the length of a path.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

ROWS = 32  # outputs that are traced at the same time
Steps = Callable[[Tensor, int], Tensor]  # (inputs (B, L, D), n) → outputs after n steps (B, L, D)


def stacked(layers: Callable[[int], nn.Module]) -> Steps:
    """The steps of a stack of layers, each in a pre-norm residual connection; `layers(i)` makes the i-th.

    Without the norm, the numbers would grow with every layer until attention weights, and with them gradients, become zero.
    """
    made: list[nn.Module] = []

    def run(x: Tensor, count: int) -> Tensor:
        while len(made) < count:
            made.append(layers(len(made)).double().eval())
        for layer in made[:count]:
            if x.requires_grad:
                x.register_hook(refreshed)
            x = x + layer(nn.functional.layer_norm(x, x.shape[-1:]))
        return x

    return run


def refreshed(gradient: Tensor) -> Tensor:
    """A gradient that is zero where the given one is, and near 1 elsewhere: through hundreds of layers it would underflow."""
    return torch.where(gradient.ne(0), 0.5 + torch.rand_like(gradient), 0.0)


def recurrent(cells: nn.GRU | nn.LSTM) -> Steps:
    """The steps of one recurrent layer: at each, every position applies the cell to its input and its neighbour's last state.

    After as many steps as there are positions, the states are those of the layer.
    """
    cells = cells.double()

    def run(x: Tensor, count: int) -> Tensor:
        batch, length, width = x.shape
        flat = x.reshape(1, batch * length, width).transpose(0, 1)  # every position is a sequence of its own
        zero = x.new_zeros(batch, length, cells.hidden_size)
        parts = (zero, zero) if isinstance(cells, nn.LSTM) else (zero,)
        for _ in range(count):
            before = tuple(nn.functional.pad(part, (0, 0, 1, 0))[:, :-1].reshape(1, batch * length, -1) for part in parts)
            _, after = cells(flat.transpose(0, 1).reshape(batch * length, 1, width), before if len(before) > 1 else before[0])
            parts = tuple(part.view(batch, length, -1) for part in (after if isinstance(after, tuple) else (after,)))
        return parts[0]

    return run


def reached(steps: Steps, count: int, length: int, width: int, seed: int = 1) -> Tensor:
    """(L, L) boolean: whether output i (row) after `count` steps depends on input j (column)."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(1, length, width, dtype=torch.float64, generator=rng)  # in float32, long paths would underflow
    probe = torch.randn(width, dtype=torch.float64, generator=rng)
    found = []
    for first in range(0, length, ROWS):
        outputs = torch.arange(first, min(first + ROWS, length))
        copies = x.repeat(len(outputs), 1, 1).requires_grad_()  # one copy of the input for each output traced
        traced = steps(copies, count)[torch.arange(len(outputs)), outputs] @ probe
        (gradient,) = torch.autograd.grad(traced.sum(), copies)
        found.append(gradient.ne(0).any(-1))
    return torch.cat(found)


def longest_path(steps: Steps, length: int, width: int, directed: bool = False) -> int | None:
    """The number of steps until every output depends on every input, or with `directed` on every earlier input.

    None if not even `length` steps are enough.
    """
    wanted = torch.ones(length, length, dtype=torch.bool)
    wanted = wanted.tril() if directed else wanted

    def connected(count: int) -> bool:
        return bool((reached(steps, count, length, width) | ~wanted).all())

    enough = 1
    while not connected(enough):
        if enough >= length:
            return None
        enough = min(2 * enough, length)
    too_few = enough // 2 if enough > 1 else 0
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if connected(middle):
            enough = middle
        else:
            too_few = middle
    return enough
