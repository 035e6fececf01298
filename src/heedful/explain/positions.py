"""Pictures of how a model encodes positions: what is added to embeddings, or how attention depends on distance.

Shapes: L length, D d_model, H heads, K d_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from heedful.errors import UsageError, did_you_mean
from heedful.explain.explanation import Array
from heedful.explain.figures import LINES, heat_map, new_figure
from heedful.explain.tables import Cell, TableView
from heedful.models.vit import PatchEmbedding
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import (
    LearnedPositions,
    LinearBias,
    PositionKind,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    absolute_positions,
    attention_positions,
)
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTH = 64  # positions that are drawn
TRAINED = ("learned", "relative")  # kinds with a learned table
ABOUT = {
    "sinusoidal": "A vector of sines and cosines is added to each embedding; the product of two depends on their distance alone.",
    "learned": "A learned vector is added to each embedding; nearby positions become similar only if training makes them so.",
    "rotary": "Pairs of features of queries and keys are rotated by an angle that grows with the position: their product depends "
    "on the distance.",
    "linear-bias": "Scores lose a slope times the distance, a different slope in each head; later keys count 1.5 times their "
    "distance.",
    "relative": "A learned vector for each distance, up to a largest one, is multiplied with the query and added to the scores.",
}


@dataclass(frozen=True)
class PositionView:
    """One kind of positions as numbers."""

    kind: str
    name: str  # of the part of the model, or of the kind
    rows: str  # what the rows of the table are
    columns: str
    table: Array  # what is drawn as a picture
    row_labels: list[str]
    column_labels: list[str]
    distances: list[int]  # key position − query position
    by_distance: dict[str, Array]  # name of a curve → a number for each distance
    measure: str  # what these numbers are

    @property
    def about(self) -> str:
        """A sentence on how this kind works."""
        return ABOUT[self.kind]

    def as_json(self) -> JsonObject:
        """For files."""
        return {
            "kind": self.kind,
            "name": self.name,
            "about": self.about,
            "rows": self.rows,
            "columns": self.columns,
            "row_labels": self.row_labels,
            "column_labels": self.column_labels,
            "table": self.table.astype(float).round(6).tolist(),
            "measure": self.measure,
            "distances": self.distances,
            "by_distance": {name: values.astype(float).round(6).tolist() for name, values in self.by_distance.items()},
        }

    def as_table(self) -> TableView:
        """The curve as numbers, at distances that double."""
        shown = [0, *(2**n for n in range(12))]
        places = [(d, self.distances.index(-d)) for d in shown if -d in self.distances]
        most = max((abs(values).max() for values in self.by_distance.values()), default=1.0) or 1.0
        rows = [
            [
                Cell(name),
                *(Cell(f"{round(float(values[at]), 2) + 0.0:.2f}", abs(float(values[at])) / float(most)) for _, at in places),
            ]
            for name, values in self.by_distance.items()
        ]
        columns = ["tokens before the query", *(str(d) for d, _ in places)]
        return TableView(f"{self.name}: {self.measure} by distance", self.about, columns, rows)


@dataclass(frozen=True)
class Positions:
    """One or several kinds of positions."""

    views: list[PositionView]

    @classmethod
    def of_kind(cls, kind: str, d_model: int = 128, heads: int = 4, length: int = LENGTH) -> Self:
        """A kind of positions in a model of this shape that was never trained; `all` kinds."""
        kinds = [name for name in get_args(PositionKind) if name != "none"]
        if kind not in (*kinds, "all"):
            raise UsageError(f"there are no positions '{kind}'{did_you_mean(kind, [*kinds, 'all', 'own'])}")
        return cls([_fresh(name, d_model, heads, length) for name in kinds if kind in (name, "all")])

    @classmethod
    def of_model(cls, model: nn.Module, length: int = LENGTH) -> Self:
        """The positions of a model: each kind once, and every learned table."""
        found: dict[str, PositionView] = {}
        for place, module in model.named_modules():
            inside = MultiHeadAttention | TokenEmbedding | PatchEmbedding
            positions: Any = module.positions if isinstance(module, inside) else None
            if positions is None:
                continue
            kind = kind_of(positions)
            view = _view(positions, f"{kind}, {_part(place)}" if kind in TRAINED else kind, length)
            found.setdefault(view.name, view)
        if not found:
            raise UsageError("this model has no positions: recurrent cells read the tokens in order")
        return cls(list(found.values()))

    def tables(self) -> list[TableView]:
        """What a distance does, as numbers."""
        return [view.as_table() for view in self.views]

    def as_json(self) -> JsonObject:
        """For files."""
        return {"format": 1, "positions": [view.as_json() for view in self.views]}

    def plot(self) -> Figure:
        """The table of each kind as a picture, and beside it the curve by distance."""
        return _plot(self.views)


def _fresh(kind: PositionKind, d_model: int, heads: int, length: int) -> PositionView:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = absolute_positions(kind, d_model, length) or attention_positions(kind, heads, d_model // heads, length // 2)
    return _view(found, f"{kind}, never trained" if kind in TRAINED else kind, length)


def kind_of(positions: Any) -> PositionKind:
    """The name of a kind of positions."""
    classes: dict[type, PositionKind] = {
        SinusoidalPositions: "sinusoidal",
        LearnedPositions: "learned",
        nn.Parameter: "learned",  # of a Vision Transformer
        RotaryPositions: "rotary",
        LinearBias: "linear-bias",
        RelativePositions: "relative",
    }
    return next(kind for known, kind in classes.items() if isinstance(positions, known))


def _part(place: str) -> str:
    """`encoder.layers.0.self_attention` → `encoder layer 1`"""
    words = place.replace("layers.", "layer ").replace("_", " ").split(".")
    words = [f"layer {int(word.split()[1]) + 1}" if word.startswith("layer ") else word for word in words]
    return " ".join(word for word in words if word != "self attention")


@torch.no_grad()
def _view(positions: Any, name: str, length: int) -> PositionView:
    if isinstance(positions, RotaryPositions):
        return _rotary_view(positions, name, length)
    if isinstance(positions, RelativePositions):
        return _relative_view(positions, name)
    if isinstance(positions, LinearBias):
        return _bias_view(positions, name, length)
    table = positions(length) if isinstance(positions, SinusoidalPositions) else getattr(positions, "table", positions)
    return _table_view(kind_of(positions), name, table[:length])


def _table_view(kind: str, name: str, table: Tensor) -> PositionView:
    """Vectors (L, D) that are added to embeddings."""
    length = len(table)
    units = torch.nn.functional.normalize(table.float(), dim=-1)
    products = units @ units.T  # (L, L)
    distances = list(range(1 - length, length))
    similarity = numbers(torch.stack([products.diagonal(d).mean() for d in distances]))
    features = [str(n) for n in range(table.size(1))]
    rows = [str(n) for n in range(length)]
    curve = {"mean over positions": similarity}
    return PositionView(
        kind, name, "position", "feature", numbers(table), rows, features, distances, curve, "cosine of two vectors"
    )


def _rotary_view(positions: RotaryPositions, name: str, length: int) -> PositionView:
    distances = list(range(1 - length, length))
    angles = torch.arange(length)[:, None].cpu() * positions.frequencies.cpu()  # (L, K/2)
    by_distance = numbers((torch.tensor(distances)[:, None] * positions.frequencies.cpu()).cos().mean(-1))
    rows, features = [str(n) for n in range(length)], [str(n) for n in range(angles.size(1))]
    curve = {"a vector with itself": by_distance}
    measure = "product of a rotated query and key"
    about = "pair of features: cosine of its angle"
    return PositionView("rotary", name, "position", about, numbers(angles.cos()), rows, features, distances, curve, measure)


def _bias_view(positions: LinearBias, name: str, length: int) -> PositionView:
    heads = len(positions.slopes)
    distances = list(range(1 - length, length))
    query = torch.zeros(1, heads, 1, 1, device=positions.slopes.device)
    query_at = torch.full((1, 1), length - 1, device=query.device)
    bias = positions.bias(query, query_at, torch.arange(2 * length - 1, device=query.device)[None])[0, :, 0]  # (H, 2L − 1)
    names = [f"head {number + 1}" for number in range(heads)]
    curves = dict(zip(names, numbers(bias), strict=True))
    labels = [str(d) for d in distances]
    return PositionView(
        "linear-bias", name, "head", "distance", numbers(bias), names, labels, distances, curves, "added to scores"
    )


def _relative_view(positions: RelativePositions, name: str) -> PositionView:
    table = positions.table.flip(0)  # by key position − query position
    distances = list(range(-positions.max_distance, positions.max_distance + 1))
    labels, features = [str(d) for d in distances], [str(n) for n in range(table.size(1))]
    curve = {"learned vector": numbers(table.norm(dim=-1))}
    return PositionView("relative", name, "distance", "feature", numbers(table), labels, features, distances, curve, "its length")


def numbers(tensor: Tensor) -> Array:
    """A tensor as an array."""
    found: Array = tensor.detach().float().cpu().numpy()
    return found


def _plot(views: list[PositionView]) -> Figure:
    figure = new_figure(11.0, 3.6 * len(views))
    panels = figure.subplots(len(views), 2, squeeze=False)
    for (picture, curve), view in zip(panels, views, strict=True):
        signed = bool((view.table < 0).any())
        image = heat_map(picture, view.table, signed=signed, aspect="auto")
        picture.set_title(view.name, fontsize=10)
        for axis, labels, name in (
            (picture.yaxis, view.row_labels, view.rows),
            (picture.xaxis, view.column_labels, view.columns),
        ):
            places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), 9)).round().astype(int))
            axis.set_ticks(places, labels=[labels[place] for place in places], fontsize=7)
            axis.set_label_text(name, fontsize=8)
        picture.xaxis.set_label_position("top")
        figure.colorbar(image, ax=picture, fraction=0.04)
        for (name, values), colour in zip(view.by_distance.items(), LINES * 100, strict=False):
            curve.plot(view.distances, values, color=colour, linewidth=1.4, label=name)
        curve.set_xlabel("distance: position of the key − position of the query", fontsize=8)
        curve.set_ylabel(view.measure, fontsize=8)
        curve.tick_params(labelsize=7)
        curve.grid(color="#e3e5ec")
        curve.spines[["top", "right"]].set_visible(False)
        if 1 < len(view.by_distance) <= 16:
            curve.legend(fontsize=7, frameon=False)
    return figure
