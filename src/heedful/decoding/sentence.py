"""A sentence that is being decoded: its options and limits, and the hypotheses found so far."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from heedful.decoding.beam_tree import BeamTree
from heedful.decoding.length_penalty import length_penalty
from heedful.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """The ids of begin, end and padding, and how much longer than its source an output may be."""

    bos: int
    eos: int
    pad: int
    max_extra: int = 50
    beyond_source: bool = True  # False: the limit is `max_extra` itself, as for the continuation of a prompt
    max_tokens: int = 0  # and no output is longer than this; 0 sets no such limit

    def longest(self, source: int) -> int:
        """The length limit of the output for a source of this many tokens."""
        longest = source * self.beyond_source + self.max_extra
        return min(longest, self.max_tokens) if self.max_tokens else longest


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: from the `top_k` most probable (0: all) and from a total probability of `top_p`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | str = 1

    def __post_init__(self) -> None:
        if self.temperature <= 0.0:
            raise UsageError(f"temperature must be above 0, not {self.temperature}; greedy search takes the most probable token")


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without begin and end, its log-probability, and the score that ranks it."""

    tokens: list[int]
    log_probability: float
    score: float


@dataclass(eq=False)
class Sentence:
    """A source sentence (or a prompt): how its output is decoded, and what has been found so far."""

    source: Sequence[int]  # ids, as the model reads them
    first: int  # the token before the output: begin, or the last one of a prompt
    longest: int  # tokens of the output at most
    beam: int = 0  # hypotheses of a beam search; 0: one token after the other, the most probable or a drawn one
    alpha: float = 0.6  # of the length penalty
    n_best: int = 1
    sampling: Sampling | None = None
    no_repeat_ngram: int = 0  # no n-gram of so many tokens is written twice; 0: any
    repetition_penalty: float = 1.0  # of the logits of tokens that were written
    alternatives: int = 0  # how many of the most probable tokens are kept for every token written, without a beam
    scored: bool = True  # whether log-probabilities are wanted; without a beam the tokens can be found without them

    tokens: list[int] = field(default_factory=list)  # written so far, without a beam
    log_probabilities: list[float] = field(default_factory=list)  # of these tokens, and of the end
    ranked: list[list[tuple[int, float]]] = field(default_factory=list)  # the alternatives of each, best first
    ended: list[Hypothesis] = field(default_factory=list)  # of a beam search
    back: list[tuple[list[int], list[int]]] = field(default_factory=list)  # of a beam search: origin and token, per step
    tree: BeamTree | None = None  # of a beam search: where to record every hypothesis it looks at
    finished: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.sampling.seed) if self.sampling else None

    @property
    def rows(self) -> int:
        """Rows of a batch that it takes."""
        return max(1, self.beam)

    @property
    def discourages_repetition(self) -> bool:
        return bool(self.no_repeat_ngram) or self.repetition_penalty != 1.0

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The best outputs, best first."""
        if not self.beam:
            total = sum(self.log_probabilities)
            return [Hypothesis(self.tokens, total, total)]
        return sorted(self.ended, key=lambda h: -h.score)[: self.n_best]

    def write(self, token: int, log_probability: float, end: int) -> None:
        """The next token of an output without a beam."""
        self.log_probabilities.append(log_probability)
        if token != end:
            self.tokens.append(token)
        self.finished = token == end or len(self.tokens) >= self.longest

    def extend(self, ends: Iterable[tuple[int, float]], origins: list[int], tokens: list[int], totals: list[float]) -> None:
        """The next step of a beam search.

        `ends` are the hypotheses that end here, each with its log-probability. `origins`, `tokens` and `totals` tell of each
        open hypothesis which one it extends, by which token, and its log-probability, best first.
        """
        penalty = length_penalty(len(self.back) + 1, self.alpha)
        self.ended += [Hypothesis(self.path(place), total, total / penalty) for place, total in ends]
        self.ended = sorted(self.ended, key=lambda h: -h.score)[: self.beam]
        self.back.append((origins, tokens))
        if len(self.back) >= self.longest:  # cut off at the limit, so that every sentence has an output
            still_open = ((place, total) for place, total in enumerate(totals) if total > -math.inf)
            self.ended += [Hypothesis(self.path(place), total, total / penalty) for place, total in still_open]
            self.finished = True
        elif totals[0] == -math.inf or (len(self.ended) == self.beam and totals[0] / penalty <= self.ended[-1].score):
            self.finished = True

    def path(self, place: int) -> list[int]:
        """The tokens of the open hypothesis at a place of the beam."""
        found = []
        for origins, tokens in reversed(self.back):
            found.append(tokens[place])
            place = origins[place]
        return found[::-1]
