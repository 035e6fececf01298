"""A faster version of greedy and beam search (`decoding/search.py`): all data about hypotheses is kept in tensors.

Tests compare it with the plain search, which also samples, lists alternatives and records trees. All sentences have the same
beam; each has its own length limit and length penalty.
Shapes: S sentences, B beam, R = S · B rows, C candidates, N steps since the oldest sentence, D d_model, V vocabulary padded to
whole blocks of W.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.decoding.candidates import Candidates, Choice, candidates_functions
from heedful.decoding.length_penalty import length_penalty
from heedful.decoding.sentence import Hypothesis, Limits, Sentence
from heedful.nn.cache import SourceKeys
from heedful.nn.fast.decoder import FastDecoder
from heedful.nn.fast.decoder_layer import map_of

BLOCK = 128  # W, tokens per block; only the best one of each is compared at first
LOGITS = 2_500_000  # logits computed at once, 10 MB: they should stay in the processor's cache
LEAVE = 0.25  # share of the sentences that are finished before their rows are removed


@runtime_checkable
class FastModel(Protocol):
    """What the search needs from a model."""

    @property
    def decodes_fast(self) -> bool: ...

    def fast_decoder(self, beam: int) -> FastDecoder: ...

    def source_keys(self, source: Tensor, source_mask: Tensor) -> list[SourceKeys]: ...

    @property
    def output(self) -> tuple[Tensor, Tensor | None]: ...


class Rows(NamedTuple):
    """The data of each sentence and its open hypotheses."""

    newest: Tensor  # (S, B) the last token
    totals: Tensor  # (S, B) log-probability
    length: Tensor  # (S,) steps so far
    longest: Tensor  # (S,) steps at most
    alpha: Tensor  # (S, 1) of the length penalty
    ended_scores: Tensor  # (S, B) scores of ended hypotheses, best first; −∞ where there is none
    ended_totals: Tensor  # (S, B) their log-probabilities
    ended_at: Tensor  # (S, B) where they ended: step of the sentence · B + place
    origins: Tensor  # (S, B, N) by step: the place that each open hypothesis continued,
    tokens: Tensor  # (S, B, N) by which token,
    values: Tensor  # (S, B, N) and its log-probability then; without a beam that of the token
    finished: Tensor  # (S,)


class FastSearch:
    """A batch of sentences decoded step by step; others join between two steps, and those that are finished leave."""

    @staticmethod
    def fits_model(model: object) -> bool:
        """Whether sentences can be decoded here by this model."""
        return isinstance(model, FastModel) and model.decodes_fast

    @staticmethod
    def fits(sentence: Sentence) -> bool:
        """Whether this sentence needs nothing that only the plain search does."""
        plain = sentence.sampling is not None or sentence.alternatives or sentence.tree is not None
        return not plain and not sentence.discourages_repetition

    def __init__(self, model: FastModel, limits: Limits, beam: int) -> None:
        """`beam` is that of every sentence; 0 is greedy search."""
        self.model, self.limits, self.greedy, self.beam = model, limits, not beam, max(1, beam)
        self.decoder = model.fast_decoder(self.beam)
        self.sentences: list[Sentence] = []  # not yet finished
        self.all: list[Sentence] = []  # those that still have rows, in the order of these
        self.scored = True  # whether some sentence wants log-probabilities
        weight, bias = model.output
        self.dtype = weight.dtype
        self.rows = self._fresh([])
        excluded = sorted({limits.pad, limits.bos} - {limits.eos})
        vocabulary = len(weight)
        block = BLOCK if vocabulary > 4 * BLOCK else 1
        more = -vocabulary % block
        bias = weight.new_zeros(vocabulary) if bias is None else bias.detach().clone()
        bias[excluded] = -math.inf
        output = map_of(weight, F.pad(bias, (0, more), value=-math.inf), vocabulary + more)  # (V, D)
        self.choice = Choice(output, vocabulary, block, max(1, LOGITS // len(weight)))
        self.most_probable, self.best_continuations = candidates_functions()

    def _fresh(self, sentences: Sequence[Sentence]) -> Rows:
        """The rows of sentences before their first step."""
        count, beam, steps = len(sentences), self.beam, self.rows.tokens.size(2) if sentences and self.all else 0
        totals = torch.full((count, beam), -math.inf, dtype=self.dtype)
        totals[:, 0] = 0.0  # all hypotheses of a sentence start out equal, so only one of them may be extended
        nothing = torch.zeros(count, beam, dtype=torch.long)
        return Rows(
            torch.tensor([[sentence.first] * beam for sentence in sentences], dtype=torch.long).view(count, beam),
            totals,
            torch.zeros(count, dtype=torch.long),
            torch.tensor([sentence.longest for sentence in sentences], dtype=torch.long),
            torch.tensor([[sentence.alpha] for sentence in sentences], dtype=torch.double).view(count, 1),
            torch.full((count, beam), -math.inf, dtype=torch.double),
            torch.full((count, beam), -math.inf, dtype=self.dtype),
            nothing,
            torch.zeros(count, beam, steps, dtype=torch.long),
            torch.zeros(count, beam, steps, dtype=torch.long),
            torch.zeros(count, beam, steps, dtype=self.dtype),
            torch.zeros(count, dtype=torch.bool),
        )

    @torch.inference_mode()
    def join(self, source: Tensor, source_mask: Tensor, sentences: Sequence[Sentence]) -> None:
        """Encode sources (S, L) and add them to the batch."""
        if len(self.sentences) < len(self.all):
            self._keep_rows((~self.rows.finished).nonzero().flatten())
        self.decoder.join(self.model.source_keys(source, source_mask), source_mask)
        fresh = self._fresh(sentences)
        self.rows = Rows(*(torch.cat(both) for both in zip(self.rows, fresh, strict=True))) if self.all else fresh
        self.all += sentences
        self.scored = any(sentence.scored for sentence in self.all)
        self.sentences = [*self.sentences, *sentences]

    @torch.inference_mode()
    def leave(self, leaving: Iterable[Sentence]) -> None:
        """Remove sentences from the batch, finished or not."""
        gone = {id(sentence) for sentence in leaving}
        if any(id(sentence) in gone for sentence in self.all):
            staying = torch.tensor([id(sentence) not in gone for sentence in self.all]) & ~self.rows.finished
            self._keep_rows(staying.nonzero().flatten())

    def _keep_rows(self, rows: Tensor) -> None:
        """Remove all rows but these."""
        self.all = [self.all[row] for row in rows.tolist()]
        self.sentences = [sentence for sentence in self.all if not sentence.finished]
        kept = Rows(*(column.index_select(0, rows) for column in self.rows))
        steps = int(kept.length.max()) if self.all else 0
        history = {name: getattr(kept, name)[:, :, kept.tokens.size(2) - steps :] for name in ("origins", "tokens", "values")}
        self.rows = kept._replace(**history)
        self.decoder.keep(rows)

    @torch.inference_mode()
    def step(self) -> list[Sentence]:
        """Write the next token of every sentence; returns the sentences that are now finished, which have left."""
        if not self.sentences:
            return []
        candidates = self._all_candidates(self.decoder.step(self.rows.newest))
        finished = self._write(candidates) if self.greedy else self._extend(candidates)
        newly = (finished & ~self.rows.finished).nonzero().flatten().tolist()
        if not newly:
            return []
        self.rows = self.rows._replace(finished=self.rows.finished | finished)
        done = [self.all[row] for row in newly]
        for row in newly:
            self._finish(row)
        self.sentences = [sentence for sentence in self.sentences if not sentence.finished]
        if len(self.all) - rounded(len(self.sentences)) >= LEAVE * len(self.all):
            self._keep_rows(some_more(~self.rows.finished))
        return done

    def _all_candidates(self, states: Tensor) -> Candidates:
        """The best continuations of all sentences; none of those that are finished, whose logits nobody needs. states (R, D)."""
        rest, totals = None, self.rows.totals  # (S, B)
        states = states.view(*totals.shape, -1)  # (S, B, D)
        if len(self.sentences) < len(self.all):
            rest = some_more(~self.rows.finished)
            states, totals = states.index_select(0, rest), totals.index_select(0, rest)
        if self.greedy:
            found = Candidates(*self.most_probable(states[:, 0], self.choice, self.scored))
        else:
            wanted = min(2 * self.beam, self.beam * self.choice.vocabulary)
            if not self.rows.tokens.size(2) and wanted <= self.choice.vocabulary:
                states, totals = states[:, :1], totals[:, :1]  # before the first step, a sentence has one hypothesis
            found = Candidates(*self.best_continuations(states, totals, wanted, self.choice))
        if rest is None:
            return found
        width = found.tokens.size(1)
        nothing = Candidates(
            torch.full((len(self.all), width), -math.inf, dtype=self.dtype),
            torch.zeros(len(self.all), width, dtype=torch.long),
            torch.zeros(len(self.all), width, dtype=torch.long),
        )
        return Candidates(*(column.index_copy_(0, rest, new) for column, new in zip(nothing, found, strict=True)))

    def _write(self, best: Candidates) -> Tensor:
        """Append the most probable token to each sentence; returns which are finished (S,)."""
        self._remember(best)
        return (best.tokens[:, 0] == self.limits.eos) | (self.rows.length >= self.rows.longest)

    def _remember(self, chosen: Candidates) -> None:
        """Continue every hypothesis (S, B) as chosen."""
        rows = self.rows
        history = ((rows.origins, chosen.origins), (rows.tokens, chosen.tokens), (rows.values, chosen.totals))
        origins, tokens, values = (torch.cat([past, new[:, :, None]], 2) for past, new in history)
        self.rows = rows._replace(newest=chosen.tokens, length=rows.length + 1, origins=origins, tokens=tokens, values=values)

    def _extend(self, best: Candidates) -> Tensor:
        """Continue with the best hypotheses of each sentence; returns which are finished (S,)."""
        rows, beam = self.rows, self.beam
        ends = best.tokens == self.limits.eos
        totals, places = best.totals.masked_fill(ends, -math.inf).topk(beam)  # (S, B)
        origins, tokens = best.origins.gather(1, places), best.tokens.gather(1, places)
        length = rows.length + 1
        penalty = ((5.0 + length[:, None]) / 6.0) ** rows.alpha  # (S, 1)
        ending = (ends & (best.totals > -math.inf))[:, :beam]
        if bool(ending.any()):
            of_ending = best.totals[:, :beam].masked_fill(~ending, -math.inf)
            at = rows.length[:, None] * beam + best.origins[:, :beam]
            scores, order = torch.cat([rows.ended_scores, of_ending / penalty], 1).sort(dim=1, descending=True, stable=True)
            order = order[:, :beam]
            self.rows = rows._replace(
                ended_scores=scores[:, :beam],
                ended_totals=torch.cat([rows.ended_totals, of_ending], 1).gather(1, order),
                ended_at=torch.cat([rows.ended_at, at], 1).gather(1, order),
            )
        self.decoder.reorder(origins)
        self._remember(Candidates(totals, origins, tokens))
        self.rows = self.rows._replace(totals=totals)
        best_open, worst_ended = totals[:, 0], self.rows.ended_scores[:, -1]
        full = (worst_ended > -math.inf) & (best_open / penalty[:, 0] <= worst_ended)
        return (length >= rows.longest) | (best_open == -math.inf) | full

    def _finish(self, row: int) -> None:
        """Store the hypotheses found in their sentence."""
        sentence, rows = self.all[row], self.rows
        length, steps = int(rows.length[row]), rows.tokens.size(2)
        tokens = rows.tokens[row, :, steps - length :].tolist()  # by place and step
        sentence.finished = True
        if self.greedy:
            sentence.tokens = tokens[0][:-1] if tokens[0][-1] == self.limits.eos else tokens[0]
            sentence.log_probabilities = rows.values[row, 0, steps - length :].tolist()
            return
        origins = rows.origins[row, :, steps - length :].tolist()

        def path(end: int, place: int) -> list[int]:
            """The tokens of the hypothesis at a place after `end` of its steps."""
            found = []
            for step in reversed(range(end)):
                found.append(tokens[place][step])
                place = origins[place][step]
            return found[::-1]

        kept = zip(rows.ended_scores[row].tolist(), rows.ended_totals[row].tolist(), rows.ended_at[row].tolist(), strict=True)
        ended = [(score, total, at // self.beam, at % self.beam) for score, total, at in kept if score > -math.inf]
        if length >= sentence.longest:  # cut off at the limit, so that every sentence has an output
            penalty = length_penalty(length, sentence.alpha)
            open_ones = enumerate(rows.totals[row].tolist())
            ended += [(total / penalty, total, length, place) for place, total in open_ones if total > -math.inf]
        ended = sorted(ended, key=lambda one: -one[0])[: sentence.n_best]
        sentence.ended = [Hypothesis(path(end, place), total, score) for score, total, end, place in ended]


def rounded(count: int) -> int:
    """A number of rows not much larger, with few significant bits: oneDNN compiles its kernels anew for every number of rows."""
    unit = 1 << max(0, count.bit_length() - 4)
    return -(-count // unit) * unit


def some_more(wanted: Tensor) -> Tensor:
    """The rows that are wanted, and so many others that their number is `rounded`."""
    rows = wanted.nonzero().flatten()
    missing = rounded(len(rows)) - len(rows)
    return torch.cat([rows, (~wanted).nonzero().flatten()[:missing]]).sort().values if missing else rows
