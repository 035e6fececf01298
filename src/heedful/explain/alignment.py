"""Which input word each output word comes from, read off the cross-attention; and how often that is wrong.

The alignment error rate is that of Och and Ney (2003). Shapes: H heads, T target words, S source words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from heedful.data.lines import read_lines
from heedful.data.parallel import Pair, read_aligned
from heedful.data.words import split_words
from heedful.errors import HeedfulError, UsageError
from heedful.explain.encoder_decoder import explain_translation
from heedful.explain.explanation import Array, Explanation, TokenSequence
from heedful.explain.figures import heat_map, new_figure
from heedful.explain.tables import Cell, TableView
from heedful.explain.tokens import Span, numbers_within
from heedful.jobs.options import ExplainOptions
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.settings import JsonObject

Links = set[tuple[int, int]]  # (source word, target word), from 0
if TYPE_CHECKING:
    from matplotlib.figure import Figure

When = Literal["written", "read"]
LINK = re.compile(r"(\d+)([-?p])(\d+)")
AVERAGE = 0  # the number that stands for all heads of a layer averaged


class Gold(NamedTuple):
    """The gold alignment of a pair of sentences: its sure links, and all possible links."""

    sure: Links
    possible: Links  # the sure ones, too


@dataclass(frozen=True)
class Alignments:
    """The links of many pairs by every layer and head: `source[pair][layer, head, target word]` is a source word, −1 for none."""

    when: When
    source: list[Array]  # (layers, 1 + H, T) each; head 0 is the average

    def links(self, layer: int | None = None, head: int | None = None) -> list[Links]:
        """The links of each pair by a layer (the last without one) and head (the average without one), both from 1."""
        if not self.source:
            return []
        layers, heads = self.source[0].shape[:2]
        layer, head = layer or layers, head or AVERAGE
        if not 1 <= layer <= layers or not 0 <= head < heads:
            raise UsageError(f"there are the layers 1 to {layers} and the heads 1 to {heads - 1}, no layer {layer} head {head}")
        return [links_of(found[layer - 1, head]) for found in self.source]

    def error_rates(self, gold: Sequence[Gold]) -> Array:
        """The alignment error rate of every layer and head: (layers, 1 + H)."""
        layers, heads = self.source[0].shape[:2] if self.source else (0, 0)
        rates = [[error_rate(self.links(layer + 1, head), gold) for head in range(heads)] for layer in range(layers)]
        return np.array(rates, dtype=np.float32).reshape(layers, heads)


def links_of(source: Array) -> Links:
    """The source word of each target word (T,) as links."""
    return {(int(i), j) for j, i in enumerate(source) if i >= 0}


def error_rate(found: Sequence[Links], gold: Sequence[Gold]) -> float:
    """1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all pairs, for found links A, sure links S and possible links P."""
    right = sum(len(a & one.sure) + len(a & one.possible) for a, one in zip(found, gold, strict=True))
    total = sum(len(a) + len(one.sure) for a, one in zip(found, gold, strict=True))
    return 1.0 - right / total if total else 0.0


def align(pipeline: AnyPipeline, pairs: Iterable[Pair], when: When = "written") -> Alignments:
    """The links of pairs of sentences; words are separated by spaces.

    An output word is aligned to the input word that gets most of its attention: `written` takes the steps that write the
    word, `read` those that read it, which is often better in deep models.
    """
    if not isinstance(pipeline, Translator):
        raise UsageError("words are aligned by an encoder–decoder, such as a translation model")
    found = []
    for source, target in pairs:
        explanation = explain_translation(pipeline, source, ExplainOptions(target=target), only_attention=True)
        found.append(word_sources(explanation, when))
    return Alignments(when, found)


def word_sources(explanation: Explanation, when: When = "written") -> Array:
    """The source word of each target word by each layer and head: (layers, 1 + H, T), head 0 the average; −1 for none."""
    cross = explanation.attention_of("cross")
    weights = np.stack([layer.weights for layer in cross.layers])  # (layers, H, Lq, Lk)
    weights = np.concatenate([weights.mean(1, keepdims=True), weights], axis=1)
    source, target = (explanation.sequences[name] for name in ("source", "target"))
    sources = membership(source, explanation.input)  # (S, Lk)
    targets = membership(target, explanation.output)  # (T, Lq)
    if when == "written":  # by the step before the one that reads it
        targets = np.roll(targets, -1, axis=1)
    found = np.full((*weights.shape[:2], len(targets)), -1, dtype=np.int64)
    if len(sources) and len(targets):
        words = targets @ (weights @ sources.T)  # (layers, 1 + H, T, S)
        found = np.where(targets.any(-1) & sources.any(), words.argmax(-1), -1)
    return found


def membership(sequence: TokenSequence, text: str) -> Array:
    """Which tokens belong to which word between spaces: (words, tokens) of 0 and 1."""
    fine = [(start, end) for _, start, end in split_words(text)]
    words: list[Span] = [match.span() for match in re.finditer(r"\S+", text)]
    of_fine = numbers_within(words, fine)
    found = np.zeros((len(words), len(sequence.tokens)), dtype=np.float32)
    for index, token in enumerate(sequence.tokens):
        if token.word is not None and (word := of_fine[token.word]) is not None:
            found[word, index] = 1.0
    return found


def pharaoh(links: Links) -> str:
    """`0-0 1-2`: source word, target word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda link: (link[1], link[0])))


def read_pairs(path: Path, translation: Path | None = None) -> list[Pair]:
    """Two aligned files, or a TSV of source and target. No line is left out, so that gold alignments stay beside theirs."""
    if translation is not None:
        return [pair for _, pair in read_aligned(path, translation)]
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            raise HeedfulError(
                f"{path} line {number} is not a source, a tab and its translation; with two aligned files, give the second "
                "with --translation"
            )
        pairs.append((source, target))
    return pairs


def read_gold(path: Path, pairs: int) -> list[Gold]:
    """Gold alignments of so many pairs, in one of two formats.

    A line of `0-0 1-2 3?4` for each pair: words from 0; `?` or `p` marks a link that is only possible. Or lines of
    `pair source target [S|P]`, all from 1, as in the shared tasks on word alignment.
    """
    lines = list(read_lines(path))
    first = next((line.split() for line in lines if line.strip()), [])
    numbered = len(first) in (3, 4) and all(part.isdecimal() for part in first[:3])
    gold = _numbered_gold(path, lines, pairs) if numbered else [_gold_line(path, n, line) for n, line in enumerate(lines, 1)]
    if len(gold) != pairs:
        raise HeedfulError(f"{path} has alignments of {len(gold):,} pairs, but there are {pairs:,} pairs")
    return gold


def _gold_line(path: Path, number: int, line: str) -> Gold:
    gold = Gold(set(), set())
    for part in line.split():
        match = LINK.fullmatch(part)
        if match is None:
            raise HeedfulError(f"{path} line {number}: “{part[:20]}” is not a link such as 0-0, or 3?4 for a possible one")
        link = int(match[1]), int(match[3])
        gold.possible.add(link)
        if match[2] == "-":
            gold.sure.add(link)
    return gold


def _numbered_gold(path: Path, lines: Sequence[str], pairs: int) -> list[Gold]:
    found: dict[int, Gold] = {}
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) not in (3, 4) or not all(part.isdecimal() for part in parts[:3]) or parts[3:] not in ([], ["S"], ["P"]):
            raise HeedfulError(f"{path} line {number} is not “pair source target”, with S or P after it: {line[:40]}")
        pair, source, target = map(int, parts[:3])
        if not (pair and source and target):
            raise HeedfulError(f"{path} line {number}: pairs and words are counted from 1 in this format")
        gold = found.setdefault(pair, Gold(set(), set()))
        gold.possible.add((source - 1, target - 1))
        if parts[3:] != ["P"]:
            gold.sure.add((source - 1, target - 1))
    return [found.get(pair, Gold(set(), set())) for pair in range(1, max([pairs, *found]) + 1)]


def error_table(rates: Array, when: When, pairs: int) -> TableView:
    """Alignment error rates, layers down and heads across; better ones have a stronger colour."""
    heads = [f"head {number}" for number in range(1, rates.shape[1])]
    rows = [
        [Cell(f"layer {layer}"), *(Cell(f"{rate:.1%}", max(0.0, 1.0 - float(rate))) for rate in row)]
        for layer, row in enumerate(rates, 1)
    ]
    about = f"Attention of the steps at which a word is {when}; 0 % is best."
    return TableView(f"Alignment error rate over {pairs:,} pairs", about, ["layer", "average", *heads], rows)


def alignments_json(alignments: Alignments, links: Sequence[Links], gold: Sequence[Gold] | None) -> JsonObject:
    """For files."""
    found: JsonObject = {"format": 1, "when": alignments.when, "alignments": [pharaoh(one) for one in links]}
    if gold is not None:
        found["error_rate"] = error_rate(links, gold)
        found["error_rates"] = alignments.error_rates(gold).astype(float).round(6).tolist()
    return found


def plot_error_rates(rates: Array, when: When) -> Figure:
    """The error rate of every layer and head as colours; light is better."""
    names = ["average", *(f"head {number}" for number in range(1, rates.shape[1]))]
    figure = new_figure(1.8 + 0.6 * rates.shape[1], 1.4 + 0.4 * len(rates))
    axes = figure.subplots()
    heat_map(axes, rates, [f"layer {number}" for number in range(1, len(rates) + 1)], names, highest=1.0, aspect="auto")
    for row, column in np.ndindex(*rates.shape):
        ink = "white" if rates[row, column] > 0.6 else "black"
        axes.text(column, row, f"{rates[row, column]:.1%}", ha="center", va="center", color=ink, fontsize=7)
    axes.set_xlabel(f"alignment error rate, by the steps at which a word is {when}", fontsize=8)
    return figure
