"""The best continuations of many hypotheses: functions for TorchScript, as in `nn/fast/decoder_layer.py`.

Shapes: S sentences, B beam, R = S · B rows, C candidates, D d_model, V vocabulary padded to whole blocks of W tokens.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.nn.fast.decoder_layer import Map, apply, without_python


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first, (S, C) each: log-probability, place in the beam, token."""

    totals: Tensor
    origins: Tensor
    tokens: Tensor


Columns = tuple[Tensor, Tensor, Tensor]  # those of `Candidates`; TorchScript would make a new class of named tuples in every call


class Choice(NamedTuple):
    """How continuations are chosen."""

    output: Map  # (V, D), whose bias forbids some tokens
    vocabulary: int  # tokens without padding
    block: int  # W; only the best token of each block is compared at first
    at_once: int  # rows whose logits are computed at once, so that they stay in the processor's cache


@cache
def candidates_functions() -> tuple[Callable[..., Columns], Callable[..., Columns]]:
    """`most_probable` and `best_continuations`, compiled once."""
    return without_python(most_probable), without_python(best_continuations)


def most_probable(states: Tensor, choice: Choice, scored: bool) -> Columns:
    """The most probable token of each sentence; its log-probability only if `scored`. states (S, D)."""
    values: list[Tensor] = []
    tokens: list[Tensor] = []
    for part in states.split(choice.at_once):
        logits = apply(choice.output, part)  # (S, V)
        blocks = logits.size(1) // choice.block
        place = logits.view(-1, blocks, choice.block).amax(2).argmax(1)  # (S,)
        first = torch.arange(part.size(0)) * blocks + place  # the block with the best token of all
        token = place * choice.block + logits.view(-1, choice.block).index_select(0, first).argmax(1)
        tokens.append(token)
        if scored:
            values.append(torch.softmax(logits, 1, out=logits).gather(1, token[:, None])[:, 0].log())
        else:
            values.append(torch.full([part.size(0)], math.nan, dtype=states.dtype))
    token = torch.cat(tokens)[:, None]
    return torch.cat(values)[:, None], torch.zeros_like(token), token


def best_continuations(states: Tensor, totals: Tensor, wanted: int, choice: Choice) -> Columns:
    """The best `wanted` continuations of each sentence: states (S, B, D), log-probabilities of its hypotheses so far (S, B)."""
    at_once = max(1, choice.at_once // states.size(1))
    values: list[Tensor] = []
    origins: list[Tensor] = []
    tokens: list[Tensor] = []
    for first in range(0, states.size(0), at_once):
        found = best_of_some(states[first : first + at_once], totals[first : first + at_once], wanted, choice)
        values.append(found[0])
        origins.append(found[1])
        tokens.append(found[2])
    return torch.cat(values), torch.cat(origins), torch.cat(tokens)


def best_of_some(states: Tensor, totals: Tensor, wanted: int, choice: Choice) -> Columns:
    """The same, for as many sentences as are computed at once.

    The best C tokens of a sentence are in those C blocks of tokens whose best ones are best, so only these are sorted.
    """
    beam, block = totals.size(1), choice.block
    logits = apply(choice.output, states.flatten(0, 1))  # (R, V)
    blocks = logits.size(1) // block
    before = totals.flatten()  # (R,)
    probabilities = torch.softmax(logits, 1, out=logits)
    best = probabilities.view(-1, blocks, block).amax(2).log_() + before[:, None]  # (R, V/W)
    found = best.view(-1, beam * blocks).topk(min(wanted, beam * blocks), sorted=False)[1]  # (S, C)
    row = torch.arange(found.size(0))[:, None] * beam + found // blocks  # (S, C)
    place = found % blocks
    inside = probabilities.view(-1, block).index_select(0, (row * blocks + place).flatten()).log_()  # (S · C, W)
    inside = inside + before.index_select(0, row.flatten())[:, None]
    top = inside.view(found.size(0), -1).topk(wanted)  # best first
    chosen, index = top[1] // block, top[1] % block
    tokens = place.gather(1, chosen) * block + index
    return top[0], (found // blocks).gather(1, chosen), tokens.clamp_(max=choice.vocabulary - 1)
