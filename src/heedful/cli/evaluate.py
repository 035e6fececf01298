"""`heedful evaluate`: the scores of a model, with what is needed to reproduce them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli import console
from heedful.cli.verb import Device
from heedful.jobs.options import ABOUT_BACKEND, Backend, SummarizeOptions
from heedful.jobs.registry import JOBS
from heedful.settings import from_json

if TYPE_CHECKING:
    from heedful.data.drops import Drops
    from heedful.pipelines.pipeline import AnyPipeline

EXAMPLES = """Examples:

`heedful evaluate runs/en-de --source test.en --reference test.de --beam 5 --tokenize none --json`

`heedful evaluate runs/sst2 dev.tsv`

`heedful evaluate runs/language-model another.txt`

`heedful evaluate runs/image-classification test-images/`
"""


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model directory or a run, such as runs/dates.")],
    data: Annotated[
        Path | None, typer.Argument(help="Held-out data in the format of the job: text, TSV, CoNLL, SQuAD, JSONL, a folder.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="For translation: the source text, one sentence per line (plain or gzip).")
    ] = None,
    reference: Annotated[Path | None, typer.Option(help="For translation: the reference translations, line by line.")] = None,
    beam: Annotated[int | None, typer.Option(help="Beam width; 1 is greedy [default: the model's].")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="The α of beam search [default: the model's].")] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer: 13a, none, zh, ja-mecab, char …")] = "13a",
    lowercase: Annotated[bool, typer.Option(help="Ignore case in BLEU and chrF.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the model's outputs to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    backend: Annotated[str, typer.Option(help=ABOUT_BACKEND)] = "native",
    device: Device = "auto",
) -> None:
    """Score a model on held-out data by the usual metrics of its job."""
    from heedful.data.drops import Drops
    from heedful.errors import HeedfulError
    from heedful.evaluation.score_names import Scores, shown_scores
    from heedful.interop.backend import use_backend
    from heedful.pipelines.load import load_pipeline
    from heedful.pipelines.translator import Translator
    from heedful.runtime.device import pick_device
    from heedful.runtime.files import write_text

    search, chosen = SummarizeOptions(beam, length_penalty), from_json("backend", Backend, backend)
    if output and not output.absolute().parent.is_dir():
        raise HeedfulError(f"there is no directory {output.parent} to write {output.name} into")
    pipeline = load_pipeline(model, pick_device(device))
    use_backend(pipeline, model, chosen, console.note)
    if isinstance(pipeline, Translator):
        pipeline.beam = search.beam or pipeline.beam
        pipeline.length_penalty = pipeline.length_penalty if search.length_penalty is None else search.length_penalty
        pipeline.bleu = {"tokenize": tokenize, "lowercase": lowercase}
        pipeline.text_scores([""], [""])  # an unknown tokenizer is an error now, not after the translation
    drops = Drops()
    examples = _examples(pipeline, data, source, reference, drops)
    unknown = _unknown_labels(pipeline, examples)
    outputs = pipeline.predict(examples)
    scores: Scores = {**pipeline.scores(examples, outputs), "examples": len(examples)}
    if isinstance(pipeline, Translator):
        scores |= {"beam": pipeline.beam, "length_penalty": pipeline.length_penalty}
    if drops.counts:
        scores["dropped"] = dict(drops.counts)
    if unknown.counts:
        scores["unknown_labels"] = dict(unknown.counts)
    if output:
        said = [sample["output"].replace("\n", " ") for sample in pipeline.samples(examples, outputs)]
        write_text(output.absolute(), "".join(f"{line}\n" for line in said))
    if as_json:
        from heedful.runtime.files import finite

        typer.echo(json.dumps(finite(scores)))
        return
    how = f", beam {scores['beam']}, length penalty {scores['length_penalty']:g}" if "beam" in scores else ""
    typer.echo(f"{'examples':20} {len(examples):,}{how}")
    if drops.counts:
        typer.echo(f"{'':20} {drops.describe()}")
    if unknown.counts:
        typer.echo(f"{'':20} {_describe_unknown(unknown)}")
    signatures = {"BLEU": scores.get("bleu_signature", ""), "chrF": scores.get("chrf_signature", "")}
    for name, value in shown_scores(scores).items():
        typer.echo(f"{name:20} {value}   {signatures.get(name, '')}".rstrip())


def _examples(pipeline: AnyPipeline, data: Path | None, source: Path | None, reference: Path | None, drops: Drops) -> list[Any]:
    """The examples of a file, of a folder of images, or of the two aligned files of a translation."""
    from heedful.data.parallel import read_aligned
    from heedful.errors import HeedfulError, UsageError

    paired = JOBS[pipeline.task].paired
    if paired and source is not None and reference is not None:
        return [pair for _, pair in read_aligned(source, reference)]
    if source is not None or reference is not None:
        raise UsageError("a translation takes --source and --reference together; any other job takes its data as one argument")
    if data is None:
        needed = "--source FILE --reference FILE" if paired else "its held-out data: a file or a folder"
        raise UsageError(f"nothing to score on; give {needed}")
    examples = pipeline.read_examples(data, drops)
    dropped = drops.counts.total()
    if dropped > len(examples):
        raise HeedfulError(f"most of {data} cannot be used: {drops.describe()}; {len(examples):,} are left")
    return examples


def _unknown_labels(pipeline: AnyPipeline, examples: list[Any]) -> Drops:
    """Count labels that the model never learned; raises an error if they are most of the data."""
    from heedful.data.drops import Drops
    from heedful.errors import HeedfulError

    unknown, with_unknown = Drops(), 0
    for number, example in enumerate(examples, 1):
        found = pipeline.unknown_labels(example)
        with_unknown += bool(found)
        for label in found:
            unknown.add(label, f"example {number:,}")
    if 2 * with_unknown > len(examples):
        known = ", ".join(pipeline.labels[:10]) + ("…" if len(pipeline.labels) > 10 else "")
        raise HeedfulError(f"{_describe_unknown(unknown)}, most of the data; the labels it knows are {known}")
    return unknown


def _describe_unknown(unknown: Drops) -> str:
    labels = [f"'{label}' {count:,} times (first: {unknown.first[label]})" for label, count in unknown.counts.most_common(5)]
    more = f" and {len(unknown.counts) - 5:,} other labels" if len(unknown.counts) > 5 else ""
    return f"labels that the model does not know: {', '.join(labels)}{more}"
