"""Greedy search, beam search (Section 6.1) and sampling over a batch of sentences.

Each sentence has its own length limit and stopping rule, so the other sentences of a batch never change its output.
Shapes: S sentences still being decoded, B beam, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from heedful.errors import UsageError


class StepState(Protocol):
    """What a model carries from step to step, one row per sentence or per hypothesis."""

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these rows, in this order; `sources=False` when every row keeps its source sentence."""


State = TypeVar("State", bound=StepState)


class StepModel(Protocol[State]):
    """What a search needs of a model: `start` encodes a source into a state, and each `step` advances the state."""

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> State: ...

    def step(self, tokens: Tensor, state: State) -> Tensor: ...


@dataclass(frozen=True)
class Limits:
    """The ids of begin, end and padding, and how much longer than its source an output may be."""

    bos: int
    eos: int
    pad: int
    max_extra: int = 50
    beyond_source: bool = True  # False: the limit is `max_extra` itself, as for the continuation of a prompt

    def longest(self, source_mask: Tensor) -> Tensor:
        """The length limit of each output: source_mask (S, L) → (S,)."""
        return source_mask.sum(-1) * self.beyond_source + self.max_extra


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without begin and end, its log-probability, and the score that ranks it."""

    tokens: list[int]
    log_probability: float
    score: float


def next_log_probabilities(logits: Tensor, limits: Limits) -> Tensor:
    """Logits (…, V) → log-probabilities, −∞ for padding and begin (unless one of them is also the end)."""
    excluded = torch.tensor(sorted({limits.pad, limits.bos} - {limits.eos}), dtype=torch.long, device=logits.device)
    return logits.float().index_fill(-1, excluded, -math.inf).log_softmax(-1)


@torch.inference_mode()
def greedy_search(
    model: StepModel[State], source: Tensor, source_mask: Tensor, limits: Limits, first: Tensor | None = None
) -> list[Hypothesis]:
    """The most probable token at every step. `first` (S,) replaces the begin token before each output."""
    return _decode(model, source, source_mask, limits, lambda scores: scores.argmax(-1), first)


@torch.inference_mode()
def sample(
    model: StepModel[State],
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    first: Tensor | None = None,
) -> list[Hypothesis]:
    """A token sampled at every step, restricted to the `top_k` most probable (0: all) and to a total probability of `top_p`."""
    if temperature <= 0.0:
        raise UsageError(f"temperature must be above 0, not {temperature}; for the most probable token use greedy search")

    def draw(scores: Tensor) -> Tensor:
        probabilities = restrict(scores / temperature, top_k, top_p).softmax(-1)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)

    return _decode(model, source, source_mask, limits, draw, first)


def restrict(scores: Tensor, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Scores (…, V) with −∞ outside the `top_k` best and outside the smallest set whose probability reaches `top_p`."""
    if 0 < top_k < scores.size(-1):
        lowest = scores.topk(top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < lowest, -math.inf)
    if top_p < 1.0:
        ordered, order = scores.softmax(-1).sort(dim=-1, descending=True)
        # A token is removed if those before it already reach top_p; the first always stays.
        removed = ordered.cumsum(-1) - ordered >= top_p
        removed[..., 0] = False
        scores = scores.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -math.inf)
    return scores


def _decode(
    model: StepModel[State],
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    choose: Callable[[Tensor], Tensor],
    first: Tensor | None,
) -> list[Hypothesis]:
    """Decode every sentence, one token per step, which `choose` picks from the log-probabilities (S, V)."""
    count, device = source.size(0), source.device
    longest = limits.longest(source_mask)
    state = model.start(source, source_mask)
    alive = torch.arange(count, device=device)  # (S,) the sentence of each row
    tokens = torch.full((count,), limits.bos, device=device) if first is None else first
    total = torch.zeros(count, device=device)
    written: list[list[int]] = [[] for _ in range(count)]
    length = 0
    while len(alive):
        scores = next_log_probabilities(model.step(tokens[:, None], state), limits)
        tokens = choose(scores)
        total[alive] += scores.gather(-1, tokens[:, None]).squeeze(-1)
        length += 1
        for row, token in zip(alive.tolist(), tokens.tolist(), strict=True):
            if token != limits.eos:
                written[row].append(token)
        unfinished = (tokens != limits.eos) & (length < longest[alive])
        if not bool(unfinished.all()):
            rows = unfinished.nonzero().squeeze(-1)
            alive, tokens = alive[rows], tokens[rows]
            if len(alive):
                state.select(rows)
    return [Hypothesis(ids, score, score) for ids, score in zip(written, total.tolist(), strict=True)]


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α (Wu et al., 2016), by which a log-probability is divided."""
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def beam_search(
    model: StepModel[State],
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    first: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence, best first.

    A hypothesis is ranked by log-probability / ((5 + length) / 6)^α, where its length includes the end token. A sentence is
    finished when `beam` hypotheses have ended and no open one scores better than the worst of them, or at its length limit.
    """
    count, device = source.size(0), source.device
    beam = max(beam, n_best)
    longest = limits.longest(source_mask).tolist()
    state = model.start(source, source_mask)
    state.select(torch.arange(count, device=device).repeat_interleave(beam))
    alive = list(range(count))
    totals = torch.full((count, beam), -math.inf, device=device)  # (S, B) log-probabilities of the open hypotheses
    totals[:, 0] = 0.0  # all beams of a sentence start equal, so only one may be extended
    begin = torch.full((count,), limits.bos, device=device) if first is None else first
    written = begin.repeat_interleave(beam)[:, None]  # (S·B, 1 + length) their tokens, begin included
    ended: list[list[Hypothesis]] = [[] for _ in range(count)]
    length = 0
    while alive:
        scores = next_log_probabilities(model.step(written[:, -1:], state), limits).view(len(alive), beam, -1)  # (S, B, V)
        vocabulary = scores.size(-1)
        # Twice as many candidates as the beam: each hypothesis has one end token, so at least `beam` others remain.
        candidates = min(2 * beam, beam * vocabulary)
        best, index = (totals[:, :, None] + scores).view(len(alive), -1).topk(candidates, dim=-1)  # (S, 2B)
        origin, token = index // vocabulary, index % vocabulary  # which hypothesis a candidate extends, and by which token
        length += 1
        penalty = length_penalty(length, alpha)
        ends = token == limits.eos
        for row, place in ends[:, :beam].nonzero().tolist():
            value = float(best[row, place])
            if value > -math.inf:
                ids = written[row * beam + int(origin[row, place]), 1:].tolist()
                ended[alive[row]].append(Hypothesis(ids, value, value / penalty))
        totals, places = best.masked_fill(ends, -math.inf).topk(beam, dim=-1)  # (S, B)
        rows = (torch.arange(len(alive), device=device)[:, None] * beam + origin.gather(1, places)).view(-1)  # (S·B,)
        tokens = token.gather(1, places).view(-1)
        written = torch.cat([written[rows], tokens[:, None]], dim=1)

        keep = []
        for row, (sentence, open_scores) in enumerate(zip(alive, totals.tolist(), strict=True)):
            finished = sorted(ended[sentence], key=lambda h: -h.score)[:beam]
            ended[sentence] = finished
            best_open = open_scores[0] / penalty
            if length >= longest[sentence]:
                for place, value in enumerate(open_scores):  # cut off at the limit, so that every sentence has an output
                    if value > -math.inf:
                        ids = written[row * beam + place, 1:].tolist()
                        ended[sentence].append(Hypothesis(ids, value, value / penalty))
            elif best_open > -math.inf and (len(finished) < beam or best_open > finished[-1].score):
                keep.append(row)
        if len(keep) < len(alive):
            alive = [alive[row] for row in keep]
            kept = torch.tensor(keep, dtype=torch.long, device=device)
            flat = (kept[:, None] * beam + torch.arange(beam, device=device)).view(-1)
            totals, written, rows = totals[kept], written[flat], rows[flat]
            if alive:
                state.select(rows)
        else:
            state.select(rows, sources=False)
    return [sorted(found, key=lambda h: -h.score)[:n_best] for found in ended]
