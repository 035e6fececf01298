"""An explanation on the terminal: tables that fit its width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from heedful.cli.table_screen import wide_console
from heedful.explain.explanation import AttentionMap, Candidate, Explanation, Lens
from heedful.explain.figures import label_of
from heedful.explain.plot import chosen_heads, chosen_layers

ROWS = 40  # of a table
KEYS = 3  # that are shown for each query
BRANCHES = 10  # of a beam's step


def show_explanation(explanation: Explanation, part: str = "", layer: str | None = None, head: int | None = None) -> None:
    """Input and output, candidates, what is attended to, the logit lens, and the beam."""
    console = wide_console()
    for name, text in (("input", explanation.input), ("output", explanation.output.rstrip("\n"))):
        if text:
            console.print(Text(f"{name:8}", style="bold"), Text(text), sep="")
    if explanation.candidates:
        _section(console, "Candidates", candidate_table(explanation))
    if explanation.attention:
        one = explanation.attention_of(part)
        _section(console, *attention_table(explanation, one, layer, head))
    for lens in explanation.lens:
        _section(console, "Logit lens: what each layer would already say", lens_table(explanation, lens, console.width))
    if explanation.beam:
        _section(console, f"Beam of {explanation.beam.width}: the tokens of each step, best first", beam_table(explanation))


def _section(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def candidate_table(explanation: Explanation) -> Table:
    """What might have been said at each position."""
    alone = all(one.position is None for one in explanation.candidates)
    place = explanation.places
    table = Table(*(() if alone else (place,)), "candidates", box=SIMPLE)
    for one in explanation.candidates[:ROWS]:
        read = "" if one.position is None else shown(explanation.place_of(one))
        table.add_row(*(() if alone else (Text(read),)), candidates_text(one.top, one.chosen))
    _cut(table, len(explanation.candidates))
    return table


def shown(text: str) -> str:
    """A token as it is printed: without the space that subwords carry."""
    return label_of(text.strip() or text)


def candidates_text(top: Sequence[Candidate], chosen: int | None) -> Text:
    """`Paris 81.0%  Rome 4.2%`, with what was chosen in bold."""
    found = Text()
    for one in top:
        style = "bold" if one.id == chosen and chosen is not None else ""
        found.append(f"{shown(one.text)} {one.probability:.1%}  ", style)
    return found


def attention_table(explanation: Explanation, one: AttentionMap, layer: str | None, head: int | None) -> tuple[str, Table]:
    """What each token attends to most, in the mean of the chosen heads."""
    layers = chosen_layers(one, layer)
    heads = chosen_heads(layers[0], head)
    weights = np.mean([found.weights[heads] for found in layers], axis=(0, 1))  # (Lq, Lk)
    queries, keys = explanation.sequences[one.queries].tokens, explanation.sequences[one.keys].tokens
    table = Table("token", "attends to", box=SIMPLE)
    for token, row in list(zip(queries, weights, strict=True))[:ROWS]:
        best = np.argsort(-row, kind="stable")[:KEYS]
        table.add_row(Text(shown(token.text)), Text("  ".join(f"{shown(keys[k].text)} {row[k]:.1%}" for k in best)))
    _cut(table, len(queries))
    which = f"layer {layers[0].number}" if len(layers) == 1 else "all layers"
    heads_shown = f"head {head}" if head is not None else "all heads averaged"
    return f"{one.name.capitalize()} attention, {which}, {heads_shown}", table


def lens_table(explanation: Explanation, lens: Lens, width: int) -> Table:
    """The most probable token of each position after each layer; a position per row, because there are fewer layers."""
    names = lens.columns or explanation.sequences[lens.sequence].texts
    table = Table("", *(Column(label, overflow="ellipsis") for label in lens.labels), box=SIMPLE)
    for index, name in list(enumerate(names))[:ROWS]:
        cells = [row[index] for row in lens.layers]
        table.add_row(Text(shown(name)), *(Text(f"{shown(c[0].text)} {c[0].probability:.0%}" if c else "") for c in cells))
    _cut(table, len(names))
    return table


def beam_table(explanation: Explanation) -> Table:
    """The branches of each step: the output's in bold, dropped ones dim."""
    beam = explanation.beam
    assert beam is not None
    table = Table("step", "branches: what was read before, then the token and its score", box=SIMPLE)
    written: dict[int | None, str] = {None: ""}
    styles = {"best": "bold", "ended": "green", "alive": "", "dropped": "dim"}
    for number, step in enumerate(beam.steps[:ROWS], 1):
        cell = Text()
        for branch in step:
            written[branch.node] = written[branch.parent] + branch.text
        for branch in step[:BRANCHES]:
            cell.append(f"{label_of(written[branch.node])[-24:]} {round(branch.score, 2) + 0.0:.2f}  ", styles[branch.state])
        table.add_row(str(number), cell)
    _cut(table, len(beam.steps))
    return table


def _cut(table: Table, rows: int) -> None:
    if rows > ROWS:
        table.add_row(*["…"] * len(table.columns))
