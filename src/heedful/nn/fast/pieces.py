"""Attention piece by piece: for one piece of queries at a time, gather its keys, compute its heads and drop everything else.

The backward pass gathers and computes each piece again. So besides queries, keys, values and heads, memory holds only one piece
at a time, however long the sequence is, and a piece is small enough for the processor's caches.

Shapes: N rows of all queries, keys or values, n rows of those of a piece, R sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Numbers that the scores of a piece may have: about as many as a core's cache holds, yet enough for several threads.
PIECE_SCORES = 2**19


def blocks_of_piece(scores: int) -> int:
    """How many blocks make a piece if each has this many scores."""
    return max(1, PIECE_SCORES // scores)


class Piece(NamedTuple):
    """Some queries, the keys that they may see, and how their heads follow from both."""

    queries: Tensor  # (n,): rows of all queries
    keys: Tensor  # (n,): rows of all keys and values
    attend: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]  # queries, keys and values (n, …) → results (R, …)


def attend_in_pieces(
    pieces: Callable[[int], Piece],
    count: int,
    parts: Sequence[Tensor],
    learned: Sequence[Tensor] = (),
    dropout: float = 0.0,
) -> tuple[Tensor, ...]:
    """The results of `count` pieces, joined along dimension 1; `parts` are all queries, keys and values (N, …).

    `pieces` makes the piece of a number, and makes it anew for the backward pass; `learned` are parameters that it uses.
    """
    if count == 1:
        return _results(pieces(0), parts)
    seed = int(torch.randint(2**62, ())) if dropout else None
    if torch.is_grad_enabled() and any(part.requires_grad for part in (*parts, *learned)):
        # torch's Function.apply has no annotations.
        found: tuple[Tensor, ...] = _Pieces.apply(pieces, count, seed, *parts, *learned)  # type: ignore[no-untyped-call]
        return found
    return _all_results(pieces, count, seed, parts)


def _results(piece: Piece, parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    query, key, value = parts
    return piece.attend(query.index_select(0, piece.queries), *(part.index_select(0, piece.keys) for part in (key, value)))


def _all_results(pieces: Callable[[int], Piece], count: int, seed: int | None, parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    found = []
    for number in range(count):
        with _random_numbers(seed, number, parts[0].device):
            found.append(_results(pieces(number), parts))
    return tuple(torch.cat(results, dim=1) for results in zip(*found, strict=True))


def _random_numbers(seed: int | None, number: int, device: torch.device) -> AbstractContextManager[Any]:
    """Inside the block, dropout of this piece draws the same random numbers every time; the generator outside is unaffected."""
    if seed is None:
        return nullcontext()
    drawn, inside = seed + number, torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type)

    class Seeded(AbstractContextManager[None]):
        def __enter__(self) -> None:
            inside.__enter__()
            torch.manual_seed(drawn)

        def __exit__(self, *error: Any) -> None:
            inside.__exit__(*error)

    return Seeded()


class _Pieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pieces: Callable[[int], Piece], count: int, seed: int | None, *given: Tensor) -> tuple[Tensor, ...]:
        ctx.pieces, ctx.count, ctx.seed = pieces, count, seed
        device = given[0].device.type
        ctx.autocast = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        ctx.save_for_backward(*given)
        return _all_results(pieces, count, seed, given[:3])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *wanted: Tensor) -> tuple[Any, ...]:
        given: tuple[Tensor, ...] = ctx.saved_tensors
        grads = [torch.zeros_like(part, memory_format=torch.contiguous_format) for part in given]
        start = 0
        for number in range(ctx.count):
            piece = ctx.pieces(number)
            rows = (piece.queries, piece.keys, piece.keys)
            parts = [part.index_select(0, chosen).requires_grad_() for part, chosen in zip(given[:3], rows, strict=True)]
            with torch.enable_grad(), torch.autocast(*ctx.autocast), _random_numbers(ctx.seed, number, parts[0].device):
                results = piece.attend(*parts)
            end = start + results[0].size(1)
            found = torch.autograd.grad(results, [*parts, *given[3:]], [grad[:, start:end] for grad in wanted], allow_unused=True)
            start = end
            for grad, chosen, added in zip(grads[:3], rows, found[:3], strict=True):
                grad.index_add_(0, chosen, added)
            for grad, added in zip(grads[3:], found[3:], strict=True):
                grad += added
        return None, None, None, *grads
