"""`heedful explain`: what a model did with an input, on the terminal, as a page, a picture or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from heedful.cli.verb import Device
from heedful.errors import UsageError
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from heedful.cli.explain_output import Output
    from heedful.explain import Explanation
    from heedful.pipelines.pipeline import AnyPipeline

EXAMPLES = """Examples:

`heedful explain runs/dates "15. November 2026"`

`heedful explain runs/dates "15. November 2026" --out date.html`

`heedful explain runs/dates "15. November 2026" --beam 4 --show beam --out beam.png`

`heedful explain runs/bert-pretraining "the import [MASK] is used to find modules" --word import`

`heedful explain runs/bert-pretraining --heads sentences.txt`

`heedful explain runs/en-de --align test.en --translation test.de`

`heedful explain --positions rotary --out rotary.png`
"""
Show = Literal["attention", "scores", "patches", "norms", "lens", "candidates", "beam"]
When = Literal["written", "read"]


def explain(
    model: Annotated[Path | None, typer.Argument(help="A model directory or a run, such as runs/dates.")] = None,
    text: Annotated[list[str] | None, typer.Argument(help="A text or an image file; for a question, also its passage.")] = None,
    passage: Annotated[Path | None, typer.Option(help="For a question: a text file that contains the answer.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a .html page, a .png, .svg or .pdf picture, or .json.")] = None,
    show: Annotated[Show, typer.Option(help="What a picture shows.")] = "attention",
    part: Annotated[str, typer.Option(help="Which attention: encoder, decoder, cross or pooling.")] = "",
    layer: Annotated[str | None, typer.Option(help="Which layer: a number, or all [default: the last].")] = None,
    head: Annotated[int | None, typer.Option(help="Which head [default: all].")] = None,
    word: Annotated[
        str | None, typer.Option(help="What each head attends to when this word is read; it#2 is the second “it”.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Explain this output instead of the model's own.")] = None,
    beam: Annotated[int | None, typer.Option(help="Beam width; 1 is greedy [default: the model's].")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="The α of beam search [default: the model's].")] = None,
    length: Annotated[int, typer.Option(help="For a language model: maximum number of tokens to write.")] = 20,
    top: Annotated[int, typer.Option(help="How many candidates to show for each position.")] = 5,
    heads: Annotated[
        Path | None, typer.Option(help="Instead of one text: what every head does on average over the lines of this file.")
    ] = None,
    align: Annotated[
        Path | None, typer.Option(help="Align words of pairs: a TSV of source and target, or the file of sources.")
    ] = None,
    translation: Annotated[Path | None, typer.Option(help="With --align: the file of targets, line by line.")] = None,
    gold: Annotated[
        Path | None, typer.Option(help="With --align: gold alignments (0-0 1-2 3?4 per line), to compute error rates.")
    ] = None,
    when: Annotated[
        When, typer.Option(help="With --align: use the step that writes a target word, or the one that reads it.")
    ] = "written",
    positions: Annotated[
        str | None,
        typer.Option(help="Show positions: sinusoidal, learned, rotary, linear-bias, relative, all; own: those of MODEL."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    device: Device = "auto",
) -> None:
    """Show what a model did with an input: attention, candidates, logit lens, norms and the beam's tree."""
    from heedful.cli import explain_corpus
    from heedful.cli.explain_output import Output
    from heedful.explain.output_file import check_output
    from heedful.pipelines.load import load_pipeline
    from heedful.runtime.device import pick_device

    _check_one_thing({"--heads": heads, "--align": align, "--positions": positions, "--word": word}, text)
    for name, value in {"--translation": translation, "--gold": gold}.items():
        if value and not align:
            raise UsageError(f"{name} goes with --align")
    if out:
        check_output(out, pages=align is None)
    output = Output(out, as_json)
    if model is None:
        if positions is None or positions == "own":
            raise UsageError("name a model, such as runs/dates; only --positions KIND needs none")
        return _show_positions(positions, None, output)
    pipeline: AnyPipeline = load_pipeline(model, pick_device(device))
    if positions:
        return _show_positions(positions, pipeline, output)
    if heads:
        return explain_corpus.show_heads(pipeline, heads, output)
    if align:
        return explain_corpus.show_alignments(pipeline, align, translation, gold, when, layer, head, output)
    given, second = _inputs(text, passage)
    asked = {"target": target, "beam": beam, "length_penalty": length_penalty, "length": length, "top": top}
    from heedful.explain import explain as explain_input

    explanation = explain_input(pipeline, given, second, model=_name(model), **asked)
    if word is not None:
        from heedful.explain.word_attention import word_attention

        return output.write(word_attention(explanation, word))
    _write(explanation, output, show, part, layer, head)


def _show_positions(kind: str, pipeline: AnyPipeline | None, output: Output) -> None:
    """The positions of a model (`own`), or of a kind."""
    from heedful.explain.positions import Positions

    if pipeline is None:
        found = Positions.of_kind(kind)
    elif kind == "own":
        found = Positions.of_model(pipeline.model)
    else:
        raise UsageError(f"--positions {kind} shows a kind by itself and needs no model; --positions own shows the model's")
    output.write(found)


def _write(explanation: Explanation, output: Output, show: str, part: str, layer: str | None, head: int | None) -> None:
    from heedful.cli.explain_screen import show_explanation

    chosen: JsonObject = {"part": part, "layer": layer, "head": head} if show in ("attention", "scores", "patches") else {}
    output.give(
        explanation.to_html,
        lambda: explanation.plot(show, **chosen),
        explanation.as_json,
        lambda: show_explanation(explanation, part, layer, head),
    )


def _check_one_thing(given: dict[str, object], text: list[str] | None) -> None:
    """Raise an error if several things are asked for at once."""
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(f"{asked[0]} and {asked[1]} cannot be combined; use one at a time")
    if asked and asked[0] != "--word" and text:
        raise UsageError(f"{asked[0]} takes no text")


def _inputs(text: list[str] | None, passage: Path | None) -> tuple[str, str | None]:
    """The input, and the passage or second text."""
    from heedful.data.lines import read_lines

    if not text:
        raise UsageError("give the text to explain, or the name of an image file")
    if passage:
        text = [*text, "\n".join(read_lines(passage))]
    if len(text) > 2:
        raise UsageError(f"one input is explained at a time, not {len(text)}; put a text of several words in quotes")
    return text[0], text[1] if len(text) == 2 else None


def _name(model: Path) -> str:
    """The name of a model: its directory, or that of its run."""
    path = model.resolve()
    return f"{path.parent.name}/{path.name}" if path.name in ("best", "final") else path.name
