"""Greedy decoding, beam search (Section 6.1) and sampling in one search, which sentences join and leave while it runs.

Every sentence has its own options, length limit and stopping rule, so the other sentences of a batch never change its output.
Shapes: R rows (one per hypothesis), S sentences of one group, B beam, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from heedful.decoding.length_penalty import length_penalty
from heedful.decoding.repetition import discourage_repetition
from heedful.decoding.sentence import Hypothesis, Limits, Sampling, Sentence


class StepState(Protocol):
    """What a model carries from step to step, one row per hypothesis."""

    def select(self, rows: Tensor, sources: bool = True) -> None:
        """Keep these rows, in this order; `sources=False` when every row keeps its source sentence."""

    def join(self, other: Self) -> None:
        """Add the rows of another state after these; they may have advanced by fewer or more steps."""


State = TypeVar("State", bound=StepState)


class StepModel(Protocol[State]):
    """What a search needs from a model: `start` encodes a source into a state, and each `step` advances the state."""

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> State: ...

    def step(self, tokens: Tensor, state: State) -> Tensor: ...


def next_log_probabilities(logits: Tensor, limits: Limits) -> Tensor:
    """Logits (…, V) → log-probabilities, −∞ for padding and begin (unless one of them is also the end)."""
    excluded = torch.tensor(sorted({limits.pad, limits.bos} - {limits.eos}), dtype=torch.long, device=logits.device)
    return logits.float().index_fill(-1, excluded, -math.inf).log_softmax(-1)


def restrict(scores: Tensor, top_k: int | Tensor = 0, top_p: float | Tensor = 1.0) -> Tensor:
    """Scores (…, V) with −∞ outside the `top_k` best and outside the smallest set whose probability reaches `top_p`.

    Both may differ between rows: (…, 1).
    """
    top_k, top_p = torch.as_tensor(top_k, device=scores.device), torch.as_tensor(top_p, device=scores.device)
    top_k = torch.where((top_k > 0) & (top_k < scores.size(-1)), top_k, scores.size(-1))
    most = int(top_k.max())
    if int(top_k.min()) < scores.size(-1):
        best = scores.topk(most, dim=-1).values
        lowest = best.gather(-1, (top_k - 1).expand(*scores.shape[:-1], 1))
        scores = scores.masked_fill(scores < lowest, -math.inf)
    if float(top_p.min()) < 1.0:
        ordered, order = scores.softmax(-1).sort(dim=-1, descending=True)
        # A token is removed if those before it already reach top_p; the first always stays.
        removed = (ordered.cumsum(-1) - ordered >= top_p) & (top_p < 1.0)
        removed[..., 0] = False
        scores = scores.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -math.inf)
    return scores


class Group(NamedTuple):
    """The sentences of a batch that are decoded in the same way, and their rows (None: all rows)."""

    sentences: list[Sentence]
    rows: Tensor | None

    def of(self, values: Tensor) -> Tensor:
        """The group's part of something with one entry per row."""
        return values if self.rows is None else values[self.rows]


class Kept(NamedTuple):
    """What remains of a group after a step: the sentences not yet finished; for each of their rows the row it continues, its
    newest token and its log-probability."""

    sentences: list[Sentence]
    origins: Tensor
    tokens: Tensor
    totals: Tensor


class Search(Generic[State]):
    """A batch of sentences decoded step by step; others join between two steps, and those that are finished leave."""

    def __init__(self, model: StepModel[State], limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.state: State | None = None
        self.sentences: list[Sentence] = []  # in the order of their rows
        self.newest = torch.zeros(0, dtype=torch.long)  # (R,) the last token of each row
        self.totals = torch.zeros(0)  # (R,) log-probabilities of the open hypotheses of beam searches
        self.groups: list[Group] = []

    @torch.inference_mode()
    def join(self, source: Tensor, source_mask: Tensor, sentences: Sequence[Sentence]) -> None:
        """Encode sources (S, L) and add them to the batch."""
        state = self.model.start(source, source_mask)
        rows = [number for number, sentence in enumerate(sentences) for _ in range(sentence.rows)]
        if len(rows) > len(sentences):
            state.select(torch.tensor(rows, device=source.device))
        # All hypotheses of a sentence start out equal, so only one of them may be extended.
        totals = [-math.inf if place else 0.0 for sentence in sentences for place in range(sentence.rows)]
        newest = torch.tensor([sentences[number].first for number in rows], device=source.device)
        if self.state is None:
            self.state, self.newest, self.totals = state, newest, torch.tensor(totals, device=source.device)
        else:
            self.state.join(state)
            self.newest = torch.cat([self.newest, newest])
            self.totals = torch.cat([self.totals, torch.tensor(totals, device=source.device)])
        self.sentences = [*self.sentences, *sentences]
        self._group()

    @torch.inference_mode()
    def leave(self, leaving: Iterable[Sentence]) -> None:
        """Remove sentences from the batch, finished or not."""
        gone = {id(sentence) for sentence in leaving}
        if not any(id(sentence) in gone for sentence in self.sentences):
            return
        stay = [sentence for sentence in self.sentences if id(sentence) not in gone]
        keep = torch.tensor([id(s) not in gone for s in self.sentences for _ in range(s.rows)], device=self.newest.device)
        rows = keep.nonzero().squeeze(-1)
        self._continue(stay, rows, self.newest[rows], self.totals[rows])

    @torch.inference_mode()
    def step(self) -> list[Sentence]:
        """Write the next token of every sentence; returns the sentences that are now finished, which have left."""
        if self.state is None:
            return []
        logits = self.model.step(self.newest[:, None], self.state)  # (R, V)
        if any(sentence.discourages_repetition for sentence in self.sentences):
            self._discourage_repetition(logits)
        scores = next_log_probabilities(logits, self.limits)  # (R, V)
        kept = [self._extend(group, scores) if group.sentences[0].beam else self._write(group, scores) for group in self.groups]
        before = self.sentences
        parts = [part for part in kept if part.sentences]
        columns = [torch.cat(column) for column in zip(*(part[1:] for part in parts), strict=True)] or [self.newest[:0]] * 3
        self._continue([sentence for part in parts for sentence in part.sentences], *columns)
        return [sentence for sentence in before if sentence.finished]

    def _group(self) -> None:
        """Sort the sentences by how they are decoded."""
        kinds: dict[tuple[int, bool], tuple[list[Sentence], list[int]]] = {}
        row = 0
        for sentence in self.sentences:
            members, rows = kinds.setdefault((sentence.beam, sentence.sampling is not None), ([], []))
            members.append(sentence)
            rows += range(row, row + sentence.rows)
            row += sentence.rows
        whole = len(kinds) == 1
        device = self.newest.device
        self.groups = [Group(members, None if whole else torch.tensor(rows, device=device)) for members, rows in kinds.values()]

    def _discourage_repetition(self, logits: Tensor) -> None:
        """Change the logits (R, V) of sentences with an option against repetition; the prompt counts as written, too."""
        row = 0
        for sentence in self.sentences:
            prompt = [] if self.limits.beyond_source else [*sentence.source, sentence.first]
            for place in range(sentence.rows if sentence.discourages_repetition else 0):
                written = [*prompt, *(sentence.path(place) if sentence.beam else sentence.tokens)]
                discourage_repetition(logits[row + place], written, sentence.no_repeat_ngram, sentence.repetition_penalty)
            row += sentence.rows

    def _continue(self, sentences: list[Sentence], origins: Tensor, newest: Tensor, totals: Tensor) -> None:
        """Continue with these sentences, and for each of their rows with the row it extends."""
        same = len(sentences) == len(self.sentences) and all(a is b for a, b in zip(sentences, self.sentences, strict=True))
        self.newest, self.totals = newest, totals
        if not sentences or self.state is None:
            self.state = None
        elif not same:
            self.state.select(origins)
        elif any(sentence.beam for sentence in sentences):
            self.state.select(origins, sources=False)
        self.sentences = sentences
        if not same:
            self._group()

    def _write(self, group: Group, scores: Tensor) -> Kept:
        """The most probable token of each sentence, or a sampled one."""
        scores = group.of(scores)
        tokens = self._draw(group, scores) if group.sentences[0].sampling else scores.argmax(-1)
        chosen = scores.gather(-1, tokens[:, None]).squeeze(-1).tolist()
        for place, (sentence, token, value) in enumerate(zip(group.sentences, tokens.tolist(), chosen, strict=True)):
            if sentence.alternatives:
                best = scores[place].topk(min(sentence.alternatives, scores.size(-1)))
                sentence.ranked.append(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
            sentence.write(token, value, self.limits.eos)
        return self._unfinished(group, torch.arange(len(tokens), device=tokens.device), tokens, torch.zeros_like(tokens).float())

    def _draw(self, group: Group, scores: Tensor) -> Tensor:
        """A token (S,) for each sentence, sampled with its own random numbers."""
        settings = [sentence.sampling for sentence in group.sentences if sentence.sampling]
        drawn = [sentence.rng.random() for sentence in group.sentences if sentence.rng]

        def column(values: Iterable[float]) -> Tensor:
            return torch.tensor(list(values), device=scores.device)[:, None]

        scores = scores / column(s.temperature for s in settings)
        scores = restrict(scores, column(s.top_k for s in settings), column(s.top_p for s in settings))
        cumulative = scores.double().softmax(-1).cumsum(-1)  # (S, V)
        wanted = column(drawn).double() * cumulative[:, -1:]
        # The first token whose cumulative probability exceeds the random number; tokens without probability never do first.
        return (cumulative <= wanted).sum(-1).clamp(max=scores.size(-1) - 1)

    def _extend(self, group: Group, scores: Tensor) -> Kept:
        """The best continuations of the hypotheses of each sentence."""
        count, beam = len(group.sentences), group.sentences[0].beam
        vocabulary = scores.size(-1)
        sums = (group.of(self.totals)[:, None] + group.of(scores)).view(count, -1)  # (S, B·V)
        # Twice as many candidates as the beam: each hypothesis has one end token, so at least `beam` others remain.
        best, index = sums.topk(min(2 * beam, beam * vocabulary), dim=-1)  # (S, 2B)
        origin, token = index // vocabulary, index % vocabulary  # which hypothesis a candidate extends, and by which token
        ends = token == self.limits.eos
        totals, places = best.masked_fill(ends, -math.inf).topk(beam, dim=-1)  # (S, B)
        origins, tokens = origin.gather(1, places), token.gather(1, places)
        ending: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for row, place in (ends & (best > -math.inf))[:, :beam].nonzero().tolist():
            ending[row].append((int(origin[row, place]), float(best[row, place])))
        columns = zip(group.sentences, ending, origins.tolist(), tokens.tolist(), totals.tolist(), strict=True)
        for row, (sentence, *found) in enumerate(columns):
            if sentence.tree is not None:
                candidates = list(zip(origin[row].tolist(), token[row].tolist(), best[row].tolist(), strict=True))
                ended = ends[row, :beam].nonzero().flatten().tolist()
                penalty = length_penalty(len(sentence.back) + 1, sentence.alpha)
                sentence.tree.grow(candidates, places[row].tolist(), ended, penalty)
            sentence.extend(*found)
        rows = torch.arange(count, device=tokens.device)[:, None] * beam + origins
        return self._unfinished(group, rows.view(-1), tokens.view(-1), totals.view(-1))

    def _unfinished(self, group: Group, origins: Tensor, tokens: Tensor, totals: Tensor) -> Kept:
        """What is left of a group; `origins` number its rows."""
        if group.rows is not None:
            origins = group.rows[origins]
        if not any(sentence.finished for sentence in group.sentences):
            return Kept(group.sentences, origins, tokens, totals)
        keep = torch.tensor([not s.finished for s in group.sentences for _ in range(s.rows)], device=tokens.device)
        left = [sentence for sentence in group.sentences if not sentence.finished]
        return Kept(left, origins[keep], tokens[keep], totals[keep])


def greedy_search(
    model: StepModel[State], source: Tensor, source_mask: Tensor, limits: Limits, first: Tensor | None = None
) -> list[Hypothesis]:
    """The most probable token at every step. `first` (S,) replaces the begin token before each output."""
    return [found[0] for found in _search(model, source, source_mask, limits, first)]


def sample(
    model: StepModel[State],
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 1,
    first: Tensor | None = None,
) -> list[Hypothesis]:
    """Sample a token at every step; each row of the batch has its own random numbers."""
    settings = [Sampling(temperature, top_k, top_p, f"{seed}/{row}") for row in range(source.size(0))]
    return [found[0] for found in _search(model, source, source_mask, limits, first, sampling=settings)]


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
    return _search(model, source, source_mask, limits, first, max(beam, n_best), alpha, n_best)


def _search(
    model: StepModel[State],
    source: Tensor,
    source_mask: Tensor,
    limits: Limits,
    first: Tensor | None,
    beam: int = 0,
    alpha: float = 0.0,
    n_best: int = 1,
    sampling: Sequence[Sampling] | None = None,
) -> list[list[Hypothesis]]:
    """Decode one batch completely."""
    firsts = [limits.bos] * source.size(0) if first is None else first.tolist()
    sentences = [
        Sentence([], firsts[row], limits.longest(length), beam, alpha, n_best, sampling[row] if sampling else None)
        for row, length in enumerate(source_mask.sum(-1).tolist())
    ]
    search = Search(model, limits)
    if sentences:
        search.join(source, source_mask, sentences)
    while search.sentences:
        search.step()
    return [sentence.hypotheses for sentence in sentences]
