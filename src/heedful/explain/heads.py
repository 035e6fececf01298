"""What every head does on average over many texts: how spread its attention is, how far it reaches, what it prefers.

Shapes: H heads, Lq queries, Lk keys.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heedful.explain.explanation import Array, Explanation, Token, TokenSequence
from heedful.explain.figures import heat_map, new_figure
from heedful.explain.tables import Cell, TableView
from heedful.nn.trace import Part
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Measure → what it is. All but the first two are shares of the attention; not all exist where queries and keys differ.
MEASURES = {
    "entropy": "of a row of weights in bits: 0 for one key, log₂ of the number of keys for all of them alike",
    "distance": "mean number of tokens between query and key",
    "previous": "attention to the token before the query",
    "same": "attention to the query itself",
    "next": "attention to the token after the query",
    "first": "attention to the first token",
    "punctuation": "attention to punctuation marks",
    "special": "attention to begin, end, [CLS], [SEP] and [MASK]",
}
NO_SHARES = ("entropy", "distance")


class HeadMeasures(NamedTuple):
    """One head: its measures, averaged over all queries that have them."""

    part: Part
    layer: int  # from 1
    head: int  # from 1
    values: dict[str, float | None]  # None where a measure has no meaning


@dataclass(frozen=True)
class HeadSummary:
    """Every head of a model over some texts."""

    texts: int
    heads: list[HeadMeasures]

    def as_json(self) -> JsonObject:
        """For files."""
        rows = [{"part": one.part, "layer": one.layer, "head": one.head, **one.values} for one in self.heads]
        return {"format": 1, "texts": self.texts, "measures": MEASURES, "heads": rows}

    def tables(self) -> list[TableView]:
        """A table for each part of the model."""
        found = []
        for part in dict.fromkeys(one.part for one in self.heads):
            own = [one for one in self.heads if one.part == part]
            names = [name for name in MEASURES if own[0].values[name] is not None]
            most = {
                name: max(one.values[name] or 0.0 for one in own) if name in ("entropy", "distance") else 1.0 for name in names
            }
            rows = [
                [
                    Cell(f"layer {one.layer} head {one.head}"),
                    *(_cell(name, one.values[name] or 0.0, most[name]) for name in names),
                ]
                for one in own
            ]
            about = "; ".join(f"{name}: {MEASURES[name]}" for name in names)
            found.append(TableView(f"{part.capitalize()} attention over {self.texts:,} texts", about, ["head", *names], rows))
        return found

    def plot(self) -> Figure:
        """Layers × heads as colours, one picture for each measure and part."""
        parts = list(dict.fromkeys(one.part for one in self.heads))
        figure = new_figure(2.1 * len(MEASURES), 0.4 + sum(1.1 + 0.25 * self._layers(part) for part in parts))
        panels = figure.subplots(len(parts), len(MEASURES), squeeze=False)
        for row, part in zip(panels, parts, strict=True):
            for axes, name in zip(row, MEASURES, strict=True):
                values = self.matrix(part, name)
                if np.isnan(values).all():
                    axes.set_visible(False)
                    continue
                layers, heads = values.shape
                highest = None if name in ("entropy", "distance") else 1.0
                image = heat_map(
                    axes, values, [str(n + 1) for n in range(layers)], [str(n + 1) for n in range(heads)], highest=highest
                )
                axes.set_xlabel(f"{part}: {name}", fontsize=8)
                figure.colorbar(image, ax=axes, shrink=0.7)
        figure.suptitle(f"Layers (down) and heads (across) over {self.texts:,} texts", fontsize=10)
        return figure

    def matrix(self, part: str, name: str) -> Array:
        """A measure of every layer and head of a part, NaN where it has no meaning: (layers, heads)."""
        own = [one for one in self.heads if one.part == part]
        values = [np.nan if one.values[name] is None else one.values[name] for one in own]
        return np.array(values, dtype=np.float32).reshape(self._layers(part), -1)

    def _layers(self, part: str) -> int:
        return max(one.layer for one in self.heads if one.part == part)


def summarize_heads(explanations: Iterable[Explanation]) -> HeadSummary:
    """The measures of every head over the attention of many inputs."""
    sums: dict[tuple[Part, int, str], Array] = {}  # part, layer, measure → (H,)
    counts: dict[tuple[Part, int, str], float] = {}
    texts = 0
    for explanation in explanations:
        texts += 1
        for one in explanation.attention:
            keys = explanation.sequences[one.keys]
            for layer in one.layers:
                for name, values in measures_of(layer.weights, keys, one.queries == one.keys).items():
                    key = (one.name, layer.number, name)
                    sums[key] = sums.get(key, np.zeros(len(values), dtype=np.float32)) + values.sum(-1)
                    counts[key] = counts.get(key, 0) + values.shape[-1]
    heads = []
    for part, number in dict.fromkeys((part, number) for part, number, _ in sums):
        for head in range(len(next(values for key, values in sums.items() if key[:2] == (part, number)))):
            found = {name: _mean(sums, counts, (part, number, name), head) for name in MEASURES}
            heads.append(HeadMeasures(part, number, head + 1, found))
    return HeadSummary(texts, heads)


def _mean(sums: dict[Any, Array], counts: dict[Any, float], key: tuple[Part, int, str], head: int) -> float | None:
    return float(sums[key][head]) / counts[key] if counts.get(key) else None


def measures_of(weights: Array, keys: TokenSequence, same_sequence: bool) -> dict[str, Array]:
    """Every measure of weights (H, Lq, Lk) for each head and each query that has it: (H, queries)."""
    length = weights.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(weights > 0, weights * np.log2(weights), 0.0).sum(-1)
    found = {
        "entropy": entropy,
        "first": weights[:, :, 0],
        "punctuation": weights[:, :, [is_punctuation(token) for token in keys.tokens]].sum(-1),
        "special": weights[:, :, [token.special for token in keys.tokens]].sum(-1),
    }
    if same_sequence:
        at = np.arange(length)
        found["distance"] = (weights * abs(at[:, None] - at[None, :])).sum(-1)
        found["previous"] = np.diagonal(weights, -1, 1, 2)
        found["same"] = np.diagonal(weights, 0, 1, 2)
        found["next"] = np.diagonal(weights, 1, 1, 2)
    return found


def is_punctuation(token: Token) -> bool:
    """Whether a token is punctuation marks and symbols alone."""
    text = token.text.strip().removeprefix("##")
    return bool(text) and not token.special and all(unicodedata.category(letter)[0] in "PS" for letter in text)


def _cell(name: str, value: float | None, most: float) -> Cell:
    if value is None:
        return Cell("–")
    return Cell(f"{value:.2f}" if name in NO_SHARES else f"{value:.1%}", value / most if most else 0.0)
