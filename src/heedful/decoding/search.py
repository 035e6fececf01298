"""Greedy search, beam search and sampling over a batch of sentences (SPEC 12).

Shapes: S sentences still being written, B beam, V vocabulary. Each sentence has its own length limit and its own
stopping rule, so what stands beside it in the batch never changes what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from heedful.errors import UsageError


class StepModel(Protocol):
    """What a search needs of a model: `start` on a source gives a state, then `step` after `step` extends it.

    The state has `select(rows, sources=True)`, which keeps these rows in this order.
    """

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...


@dataclass(frozen=True)
class Limits:
    """The ids that begin, end and never appear, and how long an output may get beyond its input."""

    bos: int
    eos: int
    pad: int
    max_extra: int = 50
    beyond_source: bool = True  # False: `max_extra` alone is the limit, as for text that goes on from a prompt

    def longest(self, source_mask: Tensor) -> Tensor:
        """(S,) most tokens each output may have."""
        return source_mask.sum(-1) * self.beyond_source + self.max_extra


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without begin and end, its log-probability, and the score it was ranked by."""

    tokens: list[int]
    log_probability: float
    score: float


def next_log_probabilities(logits: Tensor, limits: Limits) -> Tensor:
    """(…, V) logits → log-probabilities in which padding and begin cannot come, unless they mean the end too."""
    never = torch.tensor(sorted({limits.pad, limits.bos} - {limits.eos}), dtype=torch.long, device=logits.device)
    return logits.float().index_fill(-1, never, -math.inf).log_softmax(-1)


@torch.inference_mode()
def greedy_search(
    model: StepModel, source: Tensor, source_mask: Tensor, limits: Limits, first: Tensor | None = None
) -> list[Hypothesis]:
    """The most probable token at every step. `first` (S,) stands before the output instead of the begin token."""
    return _one_by_one(model, source, source_mask, limits, lambda scores: scores.argmax(-1), first)


@torch.inference_mode()
def sample(
    model: StepModel,
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    first: Tensor | None = None,
) -> list[Hypothesis]:
    """A token drawn at every step, from the `top_k` likeliest (0: all) and the likeliest that make up `top_p`."""

    if temperature <= 0.0:
        raise UsageError(f"temperature must be above 0, not {temperature}; greedy search is its limit")

    def draw(scores: Tensor) -> Tensor:
        chances = (restrict(scores / temperature, top_k, top_p)).softmax(-1)
        return torch.multinomial(chances, 1, generator=generator).squeeze(-1)

    return _one_by_one(model, source, source_mask, limits, draw, first)


def restrict(scores: Tensor, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """−∞ on every token (…, V) outside the `top_k` best and outside the smallest set whose probability reaches `top_p`."""
    if 0 < top_k < scores.size(-1):
        worst = scores.topk(top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < worst, -math.inf)
    if top_p < 1.0:
        ordered, order = scores.softmax(-1).sort(dim=-1, descending=True)
        # A token goes when those before it already make up top_p; the first always stays.
        late = ordered.cumsum(-1) - ordered >= top_p
        late[..., 0] = False
        scores = scores.masked_fill(torch.zeros_like(late).scatter(-1, order, late), -math.inf)
    return scores


def _one_by_one(
    model: StepModel,
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    choose: Callable[[Tensor], Tensor],
    first: Tensor | None,
) -> list[Hypothesis]:
    """Write every sentence with one token a step, each picked from its log-probabilities by `choose`."""
    count, device = source.size(0), source.device
    longest = limits.longest(source_mask)
    state = model.start(source, source_mask)
    alive = torch.arange(count, device=device)  # which sentence each row is
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
        going = (tokens != limits.eos) & (length < longest[alive])
        if not bool(going.all()):
            rows = going.nonzero().squeeze(-1)
            alive, tokens = alive[rows], tokens[rows]
            if len(alive):
                state.select(rows)
    return [Hypothesis(ids, score, score) for ids, score in zip(written, total.tolist(), strict=True)]


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α, by which a log-probability is divided."""
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def beam_search(
    model: StepModel,
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    first: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` outputs of each sentence, best first, that a beam of this width finds.

    A hypothesis is ranked by log-probability / ((5 + length) / 6)^α, its end token included. A sentence is done when
    `beam` hypotheses have ended and none still open scores better than the worst of them, or when it is at its limit.
    """
    count, device = source.size(0), source.device
    beam = max(beam, n_best)
    longest = limits.longest(source_mask).tolist()
    state = model.start(source, source_mask)
    state.select(torch.arange(count, device=device).repeat_interleave(beam))
    alive = list(range(count))
    totals = torch.full((count, beam), -math.inf, device=device)
    totals[:, 0] = 0.0  # all beams of a sentence start alike: only one may speak
    begin = torch.full((count,), limits.bos, device=device) if first is None else first
    written = begin.repeat_interleave(beam)[:, None]
    ended: list[list[Hypothesis]] = [[] for _ in range(count)]
    length = 0
    while alive:
        scores = next_log_probabilities(model.step(written[:, -1:], state), limits).view(len(alive), beam, -1)
        vocabulary = scores.size(-1)
        # Twice as many as needed: at most `beam` of them can be ends, so `beam` others remain.
        candidates = min(2 * beam, beam * vocabulary)
        best, index = (totals[:, :, None] + scores).view(len(alive), -1).topk(candidates, dim=-1)
        origin, token = index // vocabulary, index % vocabulary
        length += 1
        penalty = length_penalty(length, alpha)
        ends = token == limits.eos
        for row, place in ends[:, :beam].nonzero().tolist():
            value = float(best[row, place])
            if value > -math.inf:
                ids = written[row * beam + int(origin[row, place]), 1:].tolist()
                ended[alive[row]].append(Hypothesis(ids, value, value / penalty))
        open_totals, places = best.masked_fill(ends, -math.inf).topk(beam, dim=-1)
        rows = (torch.arange(len(alive), device=device)[:, None] * beam + origin.gather(1, places)).view(-1)
        tokens = token.gather(1, places).view(-1)
        written = torch.cat([written[rows], tokens[:, None]], dim=1)
        totals = open_totals

        keep = []
        for row, (sentence, open_scores) in enumerate(zip(alive, totals.tolist(), strict=True)):
            finished = sorted(ended[sentence], key=lambda h: -h.score)[:beam]
            ended[sentence] = finished
            hope = open_scores[0] / penalty
            if length >= longest[sentence]:
                for place, value in enumerate(open_scores):  # cut off at the limit, so that there is always an output
                    if value > -math.inf:
                        ids = written[row * beam + place, 1:].tolist()
                        ended[sentence].append(Hypothesis(ids, value, value / penalty))
            elif hope > -math.inf and (len(finished) < beam or hope > finished[-1].score):
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
