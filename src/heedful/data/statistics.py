"""The size and make-up of parallel text, which training settings are fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

from heedful.data.dates import generate_dates
from heedful.data.drops import Drops
from heedful.data.lines import count_lines, read_lines
from heedful.data.monolingual import SyntheticPairs
from heedful.data.parallel import Pair
from heedful.data.prepare_pairs import training_files
from heedful.jobs.data_settings import PairSettings

CHARACTERS_PER_TOKEN = 4.7  # per token, on average
EXAMINED_PAIRS = 200_000  # pairs that are examined; further ones are only counted


@dataclass(frozen=True)
class PairStatistics:
    """The size of parallel text. Pairs of numbers are for source and target."""

    pairs: int
    characters: tuple[int, int]
    words: tuple[int, int]
    distinct_characters: int = 0  # of both sides together, in the pairs examined
    distinct_words: int = 0
    tokens: int = 0  # of the longer sides, as batches count them; 0 until the pairs are prepared
    valid: int = 0  # pairs
    test: int = 0

    @property
    def tokens_of_a_pass(self) -> float:
        """The batch tokens of one pass over the pairs; estimated until they are prepared."""
        return self.tokens or max(self.pairs, max(self.characters) / CHARACTERS_PER_TOKEN)


def count_pairs(pairs: Iterable[Pair], total: int = 0) -> PairStatistics:
    """The statistics of some pairs, scaled to `total` pairs if that is more."""
    count, characters, words = 0, [0, 0], [0, 0]
    letters: set[str] = set()
    vocabulary: set[str] = set()
    for pair in pairs:
        count += 1
        for side, text in enumerate(pair):
            found = text.split()
            characters[side] += len(text)
            words[side] += len(found)
            letters.update(text)
            vocabulary.update(found)
    scale = max(count, total) / max(1, count)
    source, target = ((round(scale * c), round(scale * w)) for c, w in zip(characters, words, strict=True))
    both = (source[0], target[0]), (source[1], target[1])
    return PairStatistics(max(count, total), *both, len(letters), len(vocabulary))


def pair_statistics(data: PairSettings, seed: int, synthetic: SyntheticPairs | None = None) -> PairStatistics:
    """The statistics of the training pairs that a recipe's data section names, synthetic and held-out ones included."""
    if data.generate:
        return count_pairs(generate_dates("train", min(data.pairs, 1000), seed), data.pairs)
    files = training_files(data)
    total = count_lines(files.source) if sum(1 for _ in islice(read_lines(files.source), EXAMINED_PAIRS)) == EXAMINED_PAIRS else 0
    made = 0 if synthetic is None or not total else sum(1 for _ in synthetic.read(Drops()))
    pairs = chain(files.read(Drops()), synthetic.read(Drops()) if synthetic else ())
    return count_pairs(islice(pairs, EXAMINED_PAIRS), total + made)
