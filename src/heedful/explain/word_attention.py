"""What each head attends to when a word is read, such as "it": tokens are merged back into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heedful.errors import UsageError
from heedful.explain.explanation import Array, Explanation, TokenSequence
from heedful.explain.figures import heat_map, label_of, new_figure
from heedful.explain.tables import Cell, TableView
from heedful.nn.trace import Part
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 4  # words that are shown for each head


class Word(NamedTuple):
    """A word of a sequence, or a special token, and the numbers of its tokens."""

    text: str
    tokens: list[int]


@dataclass(frozen=True)
class WordAttention:
    """What every head of a part attends to when a word is read."""

    word: str
    part: Part
    words: list[str]  # that are attended to
    weights: Array  # (layers, heads, words); the mean over the tokens of the word that reads, the sum over those read


@dataclass(frozen=True)
class WordReading:
    """What every head of a model attends to when a word is read."""

    word: str
    occurrence: int  # which of the equal words it is, from 1
    occurrences: int
    parts: list[WordAttention]

    def as_json(self) -> JsonObject:
        """For files."""
        parts = [
            {"part": one.part, "words": one.words, "weights": one.weights.astype(float).round(6).tolist()} for one in self.parts
        ]
        return {"format": 1, "word": self.word, "occurrence": self.occurrence, "parts": parts}

    def tables(self) -> list[TableView]:
        """A table for each part: a row per head with the words it attends to most; the second “it” is it#2."""
        found = []
        for one in self.parts:
            names = numbered(one.words)
            rows = []
            for layer, heads in enumerate(one.weights, 1):
                for head, weights in enumerate(heads, 1):
                    best = np.argsort(-weights, kind="stable")[:SHOWN]
                    cells = [Cell(f"{label_of(names[k])} {weights[k]:.1%}", float(weights[k])) for k in best]
                    rows.append([Cell(f"layer {layer} head {head}"), *cells])
            columns = ["head", "most", *(["then"] * (min(SHOWN, len(one.words)) - 1))]
            title = f"{one.part.capitalize()} attention when “{one.word}” is read"
            found.append(TableView(title, self._which(), columns, rows))
        return found

    def plot(self) -> Figure:
        """Heads × words as colours."""
        height = sum(0.9 + 0.2 * one.weights.shape[0] * one.weights.shape[1] for one in self.parts)
        figure = new_figure(1.6 + 0.3 * max(len(one.words) for one in self.parts), height)
        panels = figure.subplots(len(self.parts), 1, squeeze=False)
        for (axes,), one in zip(panels, self.parts, strict=True):
            layers, heads, words = one.weights.shape
            names = [f"{layer + 1}.{head + 1}" for layer in range(layers) for head in range(heads)]
            heat_map(axes, one.weights.reshape(-1, words), names, one.words, highest=1.0, aspect="auto")
            axes.set_ylabel("layer.head", fontsize=8)
            axes.set_xlabel(f"{one.part}: what each head attends to when “{one.word}” is read", fontsize=8)
        return figure

    def _which(self) -> str:
        if self.occurrences == 1:
            return ""
        return f"Number {self.occurrence} of {self.occurrences} such words; {self.word}#2 is the second."


def numbered(words: Sequence[str]) -> list[str]:
    """Words with a number where the same one was there before, as `--word` takes it: is, it, is#2."""
    seen: Counter[str] = Counter()
    found = []
    for word in words:
        seen[word.casefold()] += 1
        found.append(word if seen[word.casefold()] == 1 else f"{word}#{seen[word.casefold()]}")
    return found


def words_of(sequence: TokenSequence) -> list[Word]:
    """The words of a sequence in order. Special tokens, patches and what belongs to no word stand for themselves."""
    found: list[Word] = []
    last: int | None = None
    for index, token in enumerate(sequence.tokens):
        if token.word is not None and token.word == last:
            word = found[-1]
            found[-1] = Word(word.text + token.text.removeprefix("##"), [*word.tokens, index])
        else:
            found.append(Word(token.text, [index]))
        last = token.word
    return [Word(word.text.strip() or word.text, word.tokens) for word in found]


def word_attention(explanation: Explanation, wanted: str) -> WordReading:
    """What each head attends to when a word is read; `it#2` is the second one of a text."""
    name, _, number = wanted.rpartition("#")
    text, occurrence = (name, int(number)) if name and number.isdecimal() else (wanted, 1)
    found: list[WordAttention] = []
    occurrences = 0
    for one in explanation.attention:
        words = words_of(explanation.sequences[one.queries])
        equal = [word for word in words if word.text.casefold() == text.casefold()]
        occurrences = max(occurrences, len(equal))
        if not 1 <= occurrence <= len(equal):
            continue
        rows = equal[occurrence - 1].tokens
        keys = words_of(explanation.sequences[one.keys])
        merged = [
            np.stack([layer.weights[:, rows][:, :, key.tokens].sum(-1).mean(-1) for key in keys], axis=-1) for layer in one.layers
        ]
        found.append(WordAttention(equal[occurrence - 1].text, one.name, [key.text for key in keys], np.stack(merged)))
    if not found:
        raise UsageError(_missing(explanation, text, occurrence, occurrences))
    return WordReading(text, occurrence, occurrences, found)


def _missing(explanation: Explanation, text: str, occurrence: int, occurrences: int) -> str:
    if not explanation.attention:
        return "this model has no attention"
    if occurrences:
        return f"“{text}” occurs {occurrences} time(s); there is no number {occurrence}"
    queries = dict.fromkeys(one.queries for one in explanation.attention)
    words = dict.fromkeys(word.text for name in queries for word in words_of(explanation.sequences[name]))
    shown = ", ".join(list(words)[:40]) + (" …" if len(words) > 40 else "")
    return f"the model reads no word “{text}” here; it reads: {shown}"
