"""Pictures of an explanation, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from heedful.errors import UsageError, did_you_mean
from heedful.explain.explanation import AttentionLayer, AttentionMap, Explanation
from heedful.explain.figures import LINES, decode_picture, heat_map, label_axes, label_of, new_figure, text_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

What = Literal["attention", "scores", "patches", "norms", "lens", "candidates", "beam"]
CHOSEN = ("attention", "scores", "patches")  # of which part, layer and head can be chosen
CELL, SMALL = 0.22, 0.09  # inches of a labelled cell, and of one among many heads
LABEL = 0.9  # inches that labels take
POSITIONS = 24  # of candidates that are drawn
LETTERS = 16  # of a token in a beam


def plot_explanation(explanation: Explanation, what: str = "attention", **options: str | int | None) -> Figure:
    """The `attention` weights or `scores` (options `part`, `layer`: a number or "all", `head`), the attention of [CLS] over the
    `patches` of an image, the residual stream's `norms`, the logit `lens`, the `candidates`, or the tree of the `beam`."""
    drawers: dict[str, Callable[..., Figure]] = {
        "attention": plot_attention,
        "scores": plot_scores,
        "patches": plot_patches,
        "norms": plot_norms,
        "lens": plot_lens,
        "candidates": plot_candidates,
        "beam": plot_beam,
    }
    if what not in drawers:
        raise UsageError(f"there is no picture of '{what}'{did_you_mean(what, get_args(What))}")
    if options and what not in CHOSEN:
        raise UsageError(f"{next(iter(options))} is for pictures of the attention, not of the {what}")
    return drawers[what](explanation, **options)


def chosen_layers(one: AttentionMap, layer: int | str | None = None) -> list[AttentionLayer]:
    """One layer by its number, the last without one, or "all"."""
    if layer == "all":
        return list(one.layers)
    try:
        number = len(one.layers) if layer is None else int(layer)
    except ValueError as error:
        raise UsageError(f"layer must be a number or 'all', not '{layer}'") from error
    if not 1 <= number <= len(one.layers):
        raise UsageError(f"the {one.name} attention has the layers 1 to {len(one.layers)}, not {number}")
    return [one.layers[number - 1]]


def chosen_heads(layer: AttentionLayer, head: int | None = None) -> list[int]:
    """One head, numbered from 1, as an index; all of them without a number."""
    heads = len(layer.weights)
    if head is None:
        return list(range(heads))
    if not 1 <= head <= heads:
        raise UsageError(f"a layer has the heads 1 to {heads}, not {head}")
    return [head - 1]


def plot_scores(explanation: Explanation, **options: Any) -> Figure:
    """The scores before mask and softmax."""
    return plot_attention(explanation, scores=True, **options)


def plot_attention(
    explanation: Explanation, part: str = "", layer: int | str | None = None, head: int | None = None, scores: bool = False
) -> Figure:
    """The chosen heads of a part of the model, layers below each other. Rows attend to columns."""
    one = explanation.attention_of(part)
    layers = chosen_layers(one, layer)
    heads = chosen_heads(layers[0], head)
    rows, columns = explanation.sequences[one.queries].texts, explanation.sequences[one.keys].texts
    alone = len(layers) * len(heads) == 1
    cell = CELL if alone or max(len(rows), len(columns)) <= 24 else SMALL
    width, height = max(1.0, cell * len(columns)), max(1.0, cell * len(rows))
    figure = new_figure(LABEL + len(heads) * (width + 0.15), LABEL + len(layers) * (height + 0.3))
    panels = figure.subplots(len(layers), len(heads), squeeze=False)
    labelled = cell == CELL
    for down, found in enumerate(layers):
        for across, number in enumerate(heads):
            axes = panels[down][across]
            values = found.scores if scores else found.weights
            if values is None:
                raise UsageError("this attention has no scores")
            names = (rows if labelled and across == 0 else None, columns if labelled and down == 0 else None)
            heat_map(axes, values[number], *names, highest=None if scores else 1.0 if alone else None, signed=scores)
            axes.set_xlabel(f"layer {found.number}, head {number + 1}", fontsize=8)
    figure.suptitle(f"{one.name.capitalize()} attention{' scores' if scores else ''}", fontsize=10)
    return figure


def plot_patches(explanation: Explanation, part: str = "", layer: int | str | None = None, head: int | None = None) -> Figure:
    """What [CLS] attends to, laid over the image, by each chosen head; with attention pooling the mean of the queries."""
    one = explanation.attention_of(part)
    picture = explanation.sequences[one.keys].image
    if picture is None:
        raise UsageError("only images have patches; this input is a text")
    from matplotlib.colors import ListedColormap

    image = decode_picture(picture.source)
    layers = chosen_layers(one, layer)
    heads = chosen_heads(layers[0], head)
    figure = new_figure(0.3 + 2.0 * len(heads), 0.5 + 2.3 * len(layers))
    panels = figure.subplots(len(layers), len(heads), squeeze=False)
    height, width = image.shape[:2]
    plain = ListedColormap(["#ff7a00"])  # as on the page: the larger the weight, the more opaque
    for row, found in zip(panels, layers, strict=True):
        for axes, number in zip(row, heads, strict=True):
            weights = found.weights[number]
            seen = weights.mean(0) if one.name == "pooling" else weights[0]
            over = seen[-picture.rows * picture.columns :].reshape(picture.rows, picture.columns)
            axes.imshow(image // 2, cmap="gray", extent=(0, width, height, 0), vmin=0, vmax=255)
            opacity = 0.85 * over / max(over.max(), 1e-9)
            axes.imshow(over, cmap=plain, alpha=opacity, extent=(0, width, height, 0), interpolation="nearest")
            label_axes(axes, None, None)
            axes.set_xlabel(f"layer {found.number}, head {number + 1}: up to {over.max():.1%}", fontsize=8)
    return figure


def plot_norms(explanation: Explanation) -> Figure:
    """The length of every vector of the residual streams, layer by layer."""
    widest = max(len(norms.values[0]) for norms in explanation.norms)
    figure = new_figure(2.2 + 0.34 * widest, sum(LABEL + 0.3 + 0.3 * len(norms.values) for norms in explanation.norms))
    panels = figure.subplots(len(explanation.norms), 1, squeeze=False)
    for (axes,), norms in zip(panels, explanation.norms, strict=True):
        image = heat_map(axes, norms.values, norms.labels, explanation.sequences[norms.sequence].texts, aspect="auto")
        axes.set_xlabel(f"{norms.stack}: length of the vectors", fontsize=8)
        figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    return figure


def plot_lens(explanation: Explanation) -> Figure:
    """What each layer would already say: the most probable token of each position, coloured by its probability."""
    import numpy as np

    if not explanation.lens:
        raise UsageError("there is no logit lens: this model has no output that its layers could be read by")
    lens = explanation.lens[0]
    columns = lens.columns or explanation.sequences[lens.sequence].texts
    values = np.array([[cell[0].probability if cell else 0.0 for cell in row] for row in lens.layers])
    longest = max((len(cell[0].text) for row in lens.layers for cell in row if cell), default=1)
    size = 0.35 + 0.075 * min(longest, 24)
    figure = new_figure(1.4 + size * len(columns), LABEL + 0.32 * len(lens.layers))
    axes = figure.subplots()
    heat_map(axes, values, lens.labels, columns, highest=1.0, aspect="auto")
    for row, cells in enumerate(lens.layers):
        for column, cell in enumerate(cells):
            if cell:
                ink = "white" if cell[0].probability > 0.6 else "black"
                axes.text(column, row, label_of(cell[0].text)[:24], ha="center", va="center", color=ink, **text_style(7))
    axes.set_xlabel("logit lens: the most probable token after each layer", fontsize=8)
    return figure


def plot_candidates(explanation: Explanation) -> Figure:
    """The most probable tokens of each position as bars; what was chosen is darker."""
    found = explanation.candidates[:POSITIONS]
    if not found:
        raise UsageError("there are no candidates: this model says nothing that could be counted")
    across = min(4, len(found))
    down = -(-len(found) // across)
    top = max(len(one.top) for one in found)
    figure = new_figure(2.4 * across, (0.5 + 0.2 * top) * down)
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for axes, one in zip(panels, found, strict=False):
        values = [candidate.probability for candidate in one.top]
        colours = [LINES[0] if candidate.id == one.chosen else "#aab2ff" for candidate in one.top]
        axes.barh(range(len(values)), values, color=colours)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_yticks(range(len(values)), labels=[label_of(c.text) for c in one.top], **text_style(8))
        axes.tick_params(axis="x", labelsize=7)
        if one.position is not None:
            name = label_of(explanation.place_of(one))[:LETTERS]
            axes.set_title(f"{one.position + 1}: {explanation.places} {name}", **text_style(8))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return figure


def plot_beam(explanation: Explanation) -> Figure:
    """The tree of the beam search: one column per step, best on top; the path of the output is bold."""
    beam = explanation.beam
    if beam is None:
        raise UsageError("there is no beam: the output was found greedily or was given; use a beam above 1")
    letters = max(min(LETTERS, len(label_of(branch.text))) for step in beam.steps for branch in step)
    column = 0.55 + 0.085 * letters  # inches; of a letter at this size about 0.085
    figure = new_figure(0.8 + column * len(beam.steps), 0.6 + 0.34 * max(len(step) for step in beam.steps))
    axes = figure.subplots()
    styles = {"best": (LINES[0], 2.2), "ended": (LINES[2], 1.2), "alive": ("#8a90a6", 1.0), "dropped": ("#d5d8e0", 0.7)}
    ends: dict[int | None, tuple[float, float]] = {None: (-0.3, 0.0)}  # where a branch goes on
    for number, step in enumerate(beam.steps):
        for y, branch in enumerate(step):
            x, text = number * column, label_of(branch.text)[:LETTERS]
            ends[branch.node] = (x + 0.04 + 0.085 * len(text), y)
            colour, width = styles[branch.state]
            left, above = ends[branch.parent]
            axes.plot([left, x - 0.04], [above, y], color=colour, linewidth=width, zorder=1)
            ink = "#8a90a6" if branch.state == "dropped" else "black"
            weight = "bold" if branch.state == "best" else "normal"
            axes.text(x, y, text, va="center", color=ink, fontweight=weight, **text_style(8))
            axes.text(x, y + 0.36, f"{round(branch.score, 2) + 0.0:.2f}", va="center", color="#8a90a6", fontsize=6)
    axes.invert_yaxis()
    label_axes(axes, None, None)
    axes.set_xlim(-0.4, column * len(beam.steps))
    axes.set_title(f"beam of {beam.width}, α = {beam.alpha:g}: token and score; bold: the output, green: ended", fontsize=8)
    return figure
