"""Continuous batching: sentences wait, join the running batch as soon as there is room, and leave it when finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, cast

from torch import Tensor

from heedful.decoding.fast_search import FastModel, FastSearch
from heedful.decoding.search import Search, State, StepModel
from heedful.decoding.sentence import Limits, Sentence
from heedful.runtime.fair_queue import FairQueue

Encoded = tuple[Tensor, Tensor, Sequence[Sentence]]  # sources (S, L), their mask (S, L), and the sentences
Kind = tuple[int, int | None]  # class of length, and the beam of a fast search, or None
CLASSES = (64, 256, 1024)  # tokens of a source: a long one is never beside a short one, which would be padded to its length


class ContinuousBatch(Generic[State]):
    """Sentences that are decoded together, at most `budget` tokens of their sources (times their beams) at a time.

    Sentences have owners, who get their places in turns. With `fair`, nobody gets more of the budget than is then still
    free: one owner half of it, two a third each, so that there is always room for a newcomer.
    """

    def __init__(
        self,
        model: StepModel[State],
        limits: Limits,
        encode: Callable[[Sequence[Sentence]], Iterable[Encoded]],
        budget: int,
        refill: float = 0.0,
        fair: bool = False,
    ) -> None:
        """`encode` makes batches of sources that can be encoded at once. New sentences join when at least the share `refill`
        of the budget is free: 0 for the least waiting, more for fewer and larger encodings."""
        self.model, self.limits, self.encode = model, limits, encode
        self.budget, self.refill, self.fair = budget, refill, fair
        self.fast = FastSearch.fits_model(model)
        self.waiting: FairQueue[Sentence] = FairQueue()
        self.searches: dict[Kind, Search[State] | FastSearch] = {}
        self.owners: dict[int, Hashable] = {}  # of running sentences, by their identity
        self.used: Counter[Hashable] = Counter()  # tokens of the budget, by owner

    def __bool__(self) -> bool:
        return bool(self.waiting or self.searches)

    @property
    def rows(self) -> int:
        """Hypotheses that the next step extends."""
        return sum(sentence.rows for search in self.searches.values() for sentence in search.sentences)

    def add(self, sentences: Iterable[Sentence], owner: Hashable = None) -> None:
        """Let sentences wait for a place; those of one owner get one in order."""
        for sentence in sentences:
            self.waiting.add(sentence, owner)

    def remove(self, sentences: Sequence[Sentence], owner: Hashable = None) -> None:
        """Forget sentences of an owner, waiting or running."""
        running = [sentence for sentence in sentences if not self.waiting.remove(sentence, owner)]
        for search in self.searches.values():
            search.leave(running)
        self._settle(running)

    def step(self) -> list[Sentence]:
        """Take in who waits and has room, and write one token of each; returns those that are now finished."""
        if self.waiting and self.used.total() <= (1.0 - self.refill) * self.budget:
            self._admit()
        finished = [sentence for search in self.searches.values() for sentence in search.step()]
        self._settle(finished)
        return finished

    def _admit(self) -> None:
        admitted: dict[Kind, list[Sentence]] = {}
        while (found := self.waiting.pop(self._has_room)) is not None:
            sentence, owner = found
            self.used[owner] += cost(sentence)
            self.owners[id(sentence)] = owner
            size = sum(len(sentence.source) > limit for limit in CLASSES)
            beam = sentence.beam if self.fast and FastSearch.fits(sentence) else None
            admitted.setdefault((size, beam), []).append(sentence)
        for kind, sentences in admitted.items():
            search = self.searches[kind] = self.searches.get(kind) or self._search(kind[1])
            for source, mask, together in self.encode(sentences):
                search.join(source, mask, together)

    def _has_room(self, sentence: Sentence, owner: Hashable) -> bool:
        free = self.budget - self.used.total()
        # A sentence that is larger than the budget still gets a place, alone or beside others.
        if not self.used[owner] and cost(sentence) > self.budget // 2:
            return free >= self.budget // 2
        return cost(sentence) + (self.used[owner] if self.fair else 0) <= free

    def _settle(self, gone: Sequence[Sentence]) -> None:
        """Give back what sentences used."""
        for sentence in gone:
            if id(sentence) in self.owners:
                owner = self.owners.pop(id(sentence))
                self.used[owner] -= cost(sentence)
                if not self.used[owner]:
                    del self.used[owner]
        self.searches = {kind: search for kind, search in self.searches.items() if search.sentences}

    def _search(self, beam: int | None) -> Search[State] | FastSearch:
        """An empty search for sentences with this beam, or the plain one for all that the fast one cannot do."""
        return Search(self.model, self.limits) if beam is None else FastSearch(cast(FastModel, self.model), self.limits, beam)


def cost(sentence: Sentence) -> int:
    """Tokens of the budget that a sentence takes."""
    return sentence.rows * (len(sentence.source) + 1)
