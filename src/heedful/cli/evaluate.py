"""`heedful evaluate`: how good a model is, in numbers that can be reproduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

`heedful evaluate runs/en-de/best --source test.en --reference test.de`

`heedful evaluate runs/en-de/best --source test.en --reference test.de --beam 5 --tokenize none --json`
"""


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model directory, such as runs/dates/best.")],
    source: Annotated[Path, typer.Option(help="Text to translate, one sentence a line (plain or gzip).")],
    reference: Annotated[Path, typer.Option(help="Its right translations, line by line.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 is greedy [default: the model's].")] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer: 13a, none, zh, ja-mecab, char …")] = "13a",
    lowercase: Annotated[bool, typer.Option(help="Ignore case in BLEU and chrF.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the translations to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Score a model on held-out text: BLEU and chrF (sacreBLEU, with signatures), exact match, perplexity."""
    from heedful.data.corpus import read_aligned
    from heedful.decoding.translator import Translator
    from heedful.errors import HeedfulError
    from heedful.evaluation import scorers, translation_scores
    from heedful.training.device import pick_device

    if output and not output.parent.is_dir():
        raise HeedfulError(f"there is no directory {output.parent} to write {output.name} into")
    scorers(tokenize, lowercase)  # a wrong name is told before the work, not after it
    pairs = [pair for _, pair in read_aligned(source, reference)]
    translator = Translator.load(model, pick_device(device))
    hypotheses = [line.replace("\n", " ") for line in translator.translate([text for text, _ in pairs], beam)]
    if output:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    scores = translation_scores(hypotheses, [target for _, target in pairs], tokenize, lowercase)
    scores |= {"perplexity": translator.perplexity(pairs), "sentences": len(pairs), "beam": beam or translator.beam}
    if as_json:
        typer.echo(json.dumps(scores))
        return
    typer.echo(f"sentences    {len(pairs):,}, beam {scores['beam']}")
    typer.echo(f"BLEU         {scores['bleu']:.2f}   {scores['bleu_signature']}")
    typer.echo(f"chrF         {scores['chrf']:.2f}   {scores['chrf_signature']}")
    typer.echo(f"exact match  {scores['exact']:.2f} %")
    typer.echo(f"perplexity   {scores['perplexity']:.3f}   per target token of the model's own vocabulary")
