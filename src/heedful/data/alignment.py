"""Finds where two parallel texts are out of step: lines whose translation stands a few lines earlier or later, or nowhere.

Nothing is known about the two languages. What belongs together is learned from a sample of the text itself: which words of
one side occur with which of the other (correspondence analysis of their co-occurrences), how lengths go together, which
numbers and names stand on both sides. Each gives the evidence that two lines belong together, as a logarithm of how much more
probable what is seen is for a pair than for two lines at random. The most probable path through the shifts of all lines
(Viterbi) then tells where a shift begins and ends.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lines = Sequence[str]
Floats = NDArray[np.floating[Any]]
Index = NDArray[np.integer[Any]]

FARTHEST = 10  # lines by which a translation is looked for earlier and later
SHIFTS = np.arange(-FARTHEST, FARTHEST + 1)
UNRELATED = len(SHIFTS)  # the state of lines that fit no shift
BLOCK = 64  # lines in a row that are sampled together
SAMPLE = 24_576  # lines that are learned from
CHUNK = 4096  # lines that are scored together
FEATURES = 3000  # words per side that take part, the most frequent ones
WIDTH = 48  # of the vectors that words become
BINS = 24  # of evidence that is measured by counting
CHANGE = 16.0  # evidence against a change of shift, so that clean text gives no alarm
SHORTEST = 100  # line pairs: with fewer there is too little to learn from
UNRELATED_LINES = 30  # a shorter stretch that fits nothing may just be a free translation
SURE_LINES = 60  # in a text that fits nowhere, fewer may fit somewhere by chance
SHIFTED_LINES = 8  # and in a shorter one that fits elsewhere, entries of a list may just be in another order
LITTLE = 0.5  # evidence per line; what was counted on the very lines it judges finds so much in lines that do not fit
LITTLE_SHARE = 0.1  # of what the fitting lines of a text have, which neighbours of similar length and subject may have too

WORDS = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
NAMES = re.compile(r"[A-Za-z]{4,}|\d+")
STEM = 5  # letters of a word that count, so that its endings do not


@dataclass(frozen=True)
class Stretch:
    """Lines `first` to `last` (from 1) of the source whose translations stand `shift` lines later; None: nowhere near."""

    first: int
    last: int
    shift: int | None

    def describe(self) -> str:
        where = f"lines {self.first:,}–{self.last:,}"
        if self.shift is None:
            return f"{where} of the two sides do not belong together"
        many = f"{abs(self.shift)} line{'s' * (abs(self.shift) > 1)}"
        return f"{where}: the translation stands {many} {'later' if self.shift > 0 else 'earlier'}"


def words_of(text: str) -> list[str]:
    """The features of a line: stems of words, numbers, punctuation; pairs of characters where words are not separated."""
    found = WORDS.findall(text.casefold())
    if text.isascii() or not UNSPACED.search(text):
        return [word[:STEM] for word in found]
    features = []
    for word in found:
        if len(word) > 1 and UNSPACED.match(word):
            features += [word[i : i + 2] for i in range(len(word) - 1)]
        else:
            features.append(word[:STEM])
    return features


def signature(text: str) -> int:
    """64 bits set by the numbers and Latin words of a line."""
    bits = 0
    for name in NAMES.findall(text):
        bits |= 1 << (zlib.crc32(name.lower().encode()) & 63)
    return bits


class Side:
    """What is known about the lines of one side in a row: ids of features, lengths, signatures."""

    def __init__(self, lines: Lines, index: dict[str, int]) -> None:
        rows = [[index[word] for word in set(words_of(line)) if word in index] for line in lines]
        self.counts = np.array([len(row) for row in rows], dtype=np.int64)
        self.ids = np.fromiter((i for row in rows for i in row), dtype=np.int64, count=int(self.counts.sum()))
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.lengths = np.log(np.array([len(line) for line in lines], dtype=np.float32) + 4)
        self.names = np.array([signature(line) for line in lines], dtype=np.uint64)

    def vectors(self, table: Floats) -> Floats:
        """The normalised sum of the vectors of each line's features."""
        total = np.zeros((len(self.counts), table.shape[1]), dtype=np.float32)
        filled = self.counts > 0
        if len(self.ids):
            total[filled] = np.add.reduceat(table[self.ids], self.starts[:-1][filled])
        for half in (total[:, :WIDTH], total[:, WIDTH:]):
            half /= np.linalg.norm(half, axis=1, keepdims=True) + 1e-6
        return total


def index_of(lines: Iterable[str]) -> dict[str, int]:
    """The most frequent features of some lines → their ids."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(set(words_of(line)))
    return {word: number for number, (word, count) in enumerate(counts.most_common(FEATURES)) if count > 1}


class Sample:
    """Blocks of lines spread over a text of unknown length: when it is full, every second block is dropped."""

    def __init__(self) -> None:
        self.blocks: list[list[tuple[str, str]]] = []
        self.stride, self.seen = 1, 0

    def add(self, source: str, target: str) -> None:
        number, place = divmod(self.seen, BLOCK)
        self.seen += 1
        if number % self.stride:
            return
        if not place:
            if len(self.blocks) * BLOCK >= SAMPLE:
                self.blocks, self.stride = self.blocks[::2], self.stride * 2
                if number % self.stride:
                    return
            self.blocks.append([])
        if self.blocks and number // self.stride == len(self.blocks) - 1:
            self.blocks[-1].append((source, target))


@dataclass(frozen=True)
class Evidence:
    """A number that two lines have together → the evidence that they belong together, by counting."""

    edges: NDArray[np.float32]
    values: Floats

    @classmethod
    def measured(cls, pairs: Floats, random: Floats) -> Evidence:
        """From the number for pairs and for lines that are paired at random."""
        edges = np.unique(np.quantile(np.concatenate([pairs, random]), np.linspace(0, 1, BINS + 1)[1:-1]))
        there, elsewhere = (
            (np.bincount(np.searchsorted(edges, some), minlength=len(edges) + 1) + 2.0) / (len(some) + 2.0 * (len(edges) + 1))
            for some in (pairs, random)
        )
        return cls(edges.astype(np.float32), np.log(there / elsewhere).clip(-4, 4).astype(np.float32))

    def of(self, numbers: Floats) -> Floats:
        return self.values[np.searchsorted(self.edges, numbers)]


class Aligner:
    """Learned from a sample: scores how well lines fit together at every shift."""

    def __init__(self, sample: Sample) -> None:
        blocks = sample.blocks
        pairs = [pair for block in blocks for pair in block]
        self.indices = [index_of(pair[side] for pair in pairs) for side in (0, 1)]
        sides = [Side([pair[side] for pair in pairs], self.indices[side]) for side in (0, 1)]
        number = np.concatenate([np.full(len(block), i) for i, block in enumerate(blocks)])  # of each line's block
        there = np.arange(len(pairs))
        self.start = best_shift(sides[0].lengths, sides[1].lengths, number)
        partner = there + self.start
        for _ in range(2):  # again with the lines paired as the first round found them
            good = np.flatnonzero((partner >= 0) & (partner < len(pairs)))
            good = good[number[good] == number[partner[good]]]
            self._learn(sides, good, partner[good], number[good] % 2)
            scores = self.scores(sides[0], sides[1], 0, number % 2)
            path = most_probable_path([scores], self.start)
            partner = there + np.append(SHIFTS, 2 * len(pairs))[path]

    def _learn(self, sides: list[Side], left: Index, right: Index, half: Index) -> None:
        """Word vectors from the pairs (left, right); those of either half are used to judge the other half."""
        found = [word_vectors(sides, left[half != side], right[half != side]) for side in (0, 1)]
        self.tables = [np.concatenate([pair[side] for pair in found], axis=1) for side in (0, 1)]
        rng = np.random.default_rng(0)
        other = rng.permutation(right)
        a, b = (side.vectors(table) for side, table in zip(sides, self.tables, strict=True))
        self.middle = float(np.median(sides[1].lengths[right] - sides[0].lengths[left]))
        self.evidence = []
        for measure in self._measures():
            pairs = measure(sides[0], sides[1], a, b, left, right, half)
            self.evidence.append(Evidence.measured(pairs, measure(sides[0], sides[1], a, b, left, other, half)))

    def _measures(self) -> list[Callable[..., Floats]]:
        """What two lines have together: similar words, similar lengths, the same names."""

        def similar_words(s: Side, t: Side, a: Floats, b: Floats, i: Index, j: Index, half: Index) -> Floats:
            x, y = a[i].reshape(-1, 2, WIDTH), b[j].reshape(-1, 2, WIDTH)
            rows = np.arange(len(x))
            return np.einsum("nd,nd->n", x[rows, half], y[rows, half])

        def similar_lengths(s: Side, t: Side, a: Floats, b: Floats, i: Index, j: Index, half: Index) -> Floats:
            return np.abs(t.lengths[j] - s.lengths[i] - self.middle)

        def same_names(s: Side, t: Side, a: Floats, b: Floats, i: Index, j: Index, half: Index) -> Floats:
            x, y = s.names[i], t.names[j]
            fewer = np.minimum(np.bitwise_count(x), np.bitwise_count(y)).astype(np.float32)
            return np.where(fewer > 0, np.bitwise_count(x & y) / np.maximum(fewer, 1), -1.0).astype(np.float32)

        return [similar_words, similar_lengths, same_names]

    def scores(self, source: Side, target: Side, offset: int, half: Index) -> Floats:
        """(states, lines of the source): the evidence for every shift, with line i of the source at line i + offset of the
        target; `half` says which vectors judge a line."""
        n, m = len(source.counts), len(target.counts)
        found = np.zeros((len(SHIFTS) + 1, n), dtype=np.float32)
        a, b = source.vectors(self.tables[0]), target.vectors(self.tables[1])
        lines = np.arange(n)
        for row, shift in enumerate(SHIFTS):
            partner = lines + offset + shift
            inside = (partner >= 0) & (partner < m)
            i, j = lines[inside], partner[inside]
            for evidence, measure in zip(self.evidence, self._measures(), strict=True):
                found[row, inside] += evidence.of(measure(source, target, a, b, i, j, half[i]))
        return found


def best_shift(source: Floats, target: Floats, block: Index) -> int:
    """The shift at which most lines of a sample have lengths that go together."""
    correlations = []
    for shift in SHIFTS.tolist():
        lines = np.arange(max(0, -shift), min(len(source), len(source) - shift))
        lines = lines[block[lines] == block[lines + shift]]
        a, b = source[lines], target[lines + shift]
        correlations.append(np.corrcoef(a, b)[0, 1] if len(lines) > 2 and min(a.std(), b.std()) > 1e-6 else 0.0)
    found = int(SHIFTS[int(np.argmax(correlations))])
    return found if max(correlations) > correlations[FARTHEST] + max(0.1, 4 / len(source) ** 0.5) else 0  # 4: not by chance


def word_vectors(sides: list[Side], left: Index, right: Index) -> tuple[Floats, Floats]:
    """A vector for every feature of either side, such that features that occur in pairs of lines have similar ones.

    Correspondence analysis: the singular vectors of the co-occurrences, less those expected by chance and scaled by what
    chance makes of them.
    """
    rows = [max(1, int(side.ids.max(initial=0)) + 1) for side in sides]
    together = np.zeros(rows[0] * rows[1], dtype=np.float32)
    often = [np.zeros(size, dtype=np.float32) for size in rows]
    for i, j in zip(left, right, strict=True):
        a = sides[0].ids[sides[0].starts[i] : sides[0].starts[i + 1]]
        b = sides[1].ids[sides[1].starts[j] : sides[1].starts[j + 1]]
        together[(a[:, None] * rows[1] + b).ravel()] += 1
        often[0][a] += 1
        often[1][b] += 1
    counts = together.reshape(rows[0], rows[1])
    expected = often[0][:, None] * often[1] / max(1, len(left))
    deviation = (counts - expected) / np.sqrt(expected + 1)
    rng = np.random.default_rng(1)
    basis = rng.standard_normal((rows[1], WIDTH)).astype(np.float32)
    for _ in range(4):  # subspace iteration
        basis, _ = np.linalg.qr(deviation.T @ np.linalg.qr(deviation @ basis)[0])
    u, values, v = np.linalg.svd(deviation @ basis, full_matrices=False)
    width = min(WIDTH, len(values))
    found = []
    for vectors, number in ((u, often[0]), (basis @ v.T, often[1])):
        table = np.zeros((len(number), WIDTH), dtype=np.float32)
        table[:, :width] = vectors[:, :width] * np.sqrt(values[:width]) / (number[:, None] + 3) ** 0.25
        found.append(table)
    return found[0], found[1]


def most_probable_path(scores: Iterable[Floats], start: int = 0, kept: list[Floats] | None = None) -> Index:
    """The state of every line: an index into SHIFTS, or UNRELATED (Viterbi; a change costs CHANGE).

    `kept` receives by how much each line fits its own partner better than the partner's neighbours.
    """
    best = np.full(len(SHIFTS) + 1, -CHANGE, dtype=np.float64)
    best[FARTHEST + start] = 0.0
    changed: list[NDArray[np.bool_]] = []
    froms: list[int] = []
    for chunk in scores:
        if kept is not None:
            others = (chunk[:UNRELATED].sum(axis=0) - chunk[FARTHEST]) / (UNRELATED - 1)
            kept.append((chunk[FARTHEST] - others).astype(np.float16))
        for column in chunk.T.astype(np.float64):
            from_ = int(best.argmax())
            floor = best[from_] - CHANGE
            change = best < floor
            changed.append(change)
            froms.append(from_)
            best = np.maximum(best, floor) + column
    state = int(best.argmax())
    path = np.zeros(len(froms), dtype=np.int64)
    for line in range(len(froms) - 1, -1, -1):
        path[line] = state
        if changed[line][state]:
            state = froms[line]
    return path


def stretches(path: Index, better: Floats) -> Iterator[Stretch]:
    """The parts of a path that are not at shift zero; `better` is what `most_probable_path` keeps."""
    whole = smooth(path)
    fitting = better[path == FARTHEST].astype(np.float64)
    usual = fitting.mean() if len(fitting) and len(whole) > 1 else 0.0

    def fits(first: int, last: int) -> bool:
        """Whether lines fit their own partners clearly better than others, as they do even where names and rare words are no
        evidence."""
        here = better[first:last].astype(np.float64)
        return bool(here.mean() > max(2 * here.std() / len(here) ** 0.5, LITTLE, LITTLE_SHARE * usual))

    for first, last, state in whole:
        count = last - first
        if state == UNRELATED:
            if count >= UNRELATED_LINES and not fits(first, last):
                yield Stretch(first + 1, last, None)
        elif state != FARTHEST:
            if count >= max(SHIFTED_LINES, 2 * abs(int(SHIFTS[state]))):
                yield Stretch(first + 1, last, int(SHIFTS[state]))
        elif len(whole) == 1 and not fits(first, last):  # nothing in the whole text fits
            yield Stretch(1, last, None)


def smooth(path: Index) -> list[tuple[int, int, int]]:
    """(first, last + 1, state) of the parts of a path, short ones between two of the same state merged with these."""
    borders = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    parts = [(first, last, int(path[first])) for first, last in pairwise(borders) if first < last]
    while True:
        for here in range(1, len(parts) - 1):
            (first, before_end, before), (start, end, state), (after_start, last, after) = parts[here - 1 : here + 2]
            around = min(before_end - first, last - after_start)
            is_noise = before == UNRELATED and end - start < SURE_LINES
            if before == after and (is_noise or (state == UNRELATED and before != FARTHEST and end - start < 2 * around)):
                parts[here - 1 : here + 2] = [(first, last, before)]
                break
        else:
            return parts


def join(found: list[Stretch]) -> list[Stretch]:
    """The stretches with those joined that follow close on one another and mostly fit nowhere: their shifts are chance."""
    joined: list[Stretch] = []
    for stretch in found:
        last = joined[-1] if joined else None
        if last is not None and stretch.first - last.last <= SURE_LINES and (last.shift is None or stretch.shift is None):
            smaller = min(last, stretch, key=lambda one: one.last - one.first)
            if smaller.shift is None or smaller.last - smaller.first < SURE_LINES:
                larger = stretch if smaller is last else last
                joined[-1] = Stretch(last.first, stretch.last, larger.shift)
                continue
        joined.append(stretch)
    return joined


def misaligned(sample: Sample, pairs: Iterable[tuple[str | None, str | None]]) -> list[Stretch]:
    """The stretches that are out of step; `pairs` are the lines of both sides, None where one side has ended."""
    if sample.seen < SHORTEST:
        return []
    aligner = Aligner(sample)

    def scored() -> Iterator[Floats]:
        before = FARTHEST  # lines of the target that are kept from the chunk before
        sources: list[str] = []
        targets: list[str] = []
        done, offset = 0, 0

        def score(count: int) -> Floats:
            half = (np.arange(done, done + count) // BLOCK // sample.stride) % 2
            side = [Side(lines, index) for lines, index in zip((sources[:count], targets), aligner.indices, strict=True)]
            return aligner.scores(side[0], side[1], offset, half)

        for source, target in pairs:
            sources += [] if source is None else [source]
            targets += [] if target is None else [target]
            if len(sources) >= CHUNK + FARTHEST:
                yield score(CHUNK)
                done += CHUNK
                cut = max(0, offset + CHUNK - before)
                del sources[:CHUNK], targets[:cut]
                offset += CHUNK - cut
        if sources:
            yield score(len(sources))

    better: list[Floats] = []
    path = most_probable_path(scored(), kept=better)
    return join(list(stretches(path, np.concatenate(better))))
