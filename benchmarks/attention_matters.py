"""Why the field moved: recurrent without attention, recurrent with it, and the Transformer, by the length of the source.

    python benchmarks/attention_matters.py --data ../shared/data/multi30k/tok --plot attention_matters.png

There are two jobs: dates in any of 33 languages to ISO 8601 (the recipe `dates`), and English to German captions (Multi30k
with the recipe `translation`). All models have the same size: the recurrent models get the width that brings their number
of parameters closest to the Transformer's. All models train for the same time: each first runs for some steps to measure
its speed, and `training.steps` is then set so that training takes the given minutes. Validation is not counted; the table
has the actual time. Each model is trained by `heedful train`, and its final checkpoint is scored on the test set, cut into
about five equal parts by source length: dates by exact match, captions by BLEU on the given tokens.

The recurrent models are one-layer GRUs with a bidirectional encoder and additive attention, at a learning rate of
--recurrent-rate; everything else, including dropout, is the recipe's. `--redraw OUTPUT` only plots, from an earlier --output.
"""

from __future__ import annotations

import argparse
import bisect
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.data.parallel import Pair
from heedful.data.prepare_pairs import load_prepared
from heedful.evaluation.bleu import translation_scores
from heedful.models import build_model
from heedful.pipelines import load_pipeline
from heedful.recipes import load_recipe
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Silence
from heedful.tasks.translation import TranslationTask
from heedful.text import Tokenizer
from measuring import PAPER_TRAINING, Transcript, heedful_facts, watch_heedful

PARTS = 5  # of the test set, by length
# Name → settings of the model, and a colour from a palette that is safe for colour-blind readers.
MODELS = {
    "recurrent, no attention": (["model.kind=recurrent", "model.attention=none"], "#7f7f7f"),
    "recurrent + attention": (["model.kind=recurrent", "model.attention=additive"], "#d55e00"),
    "Transformer": ([], "#0072b2"),
}


@dataclass(frozen=True)
class Job:
    """What the models learn, and how they are scored."""

    recipe: str
    title: str
    unit: str  # of the source's length
    metric: str  # of `translation_scores`
    shown: str  # the metric's display name
    length: Callable[[str, Tokenizer], int]


JOBS = {
    "dates": Job(
        "dates", "Dates in 33 languages → ISO 8601", "characters", "exact", "exact match, %", lambda text, t: len(t.encode(text))
    ),
    "multi30k": Job(
        "translation", "English → German captions (Multi30k)", "words", "bleu", "BLEU", lambda text, t: len(text.split())
    ),
}


def file_of(folder: Path, name: str) -> Path:
    """The path of a file in a folder, plain or gzip."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path.absolute()
    raise SystemExit(f"there is no {name} or {name}.gz in {folder}; give --data the folder of Multi30k")


def data_overrides(job: str, arguments: argparse.Namespace) -> list[str]:
    """The settings that select the training, validation and test pairs."""
    if job == "dates":
        return [f"data.pairs={arguments.pairs}"]
    splits = {"": "train", "valid_": "val", "test_": "test_2016_flickr"}
    sides = {"source": "en", "target": "de"}
    files = [
        f"data.{split}{side}={file_of(arguments.data, f'{name}.{language}')}"
        for split, name in splits.items()
        for side, language in sides.items()
    ]
    return [*files, *PAPER_TRAINING, "training.average=5"]  # the same for both kinds of model


def parameters_of(recipe: str, overrides: Sequence[str], data: Path) -> int:
    """The number of parameters of a model, computed without allocating it."""
    with torch.device("meta"):
        model = build_model(TranslationTask(load_recipe(recipe, overrides), data).config)
    return sum(parameter.numel() for parameter in model.parameters())


def model_overrides(job: Job, name: str, given: list[str], data: Path, rate: float) -> list[str]:
    """The settings of one model; a recurrent one gets the width that matches the Transformer's size."""
    own = MODELS[name][0]
    if not own:
        return ["model.positions=sinusoidal"]
    dropout = f"model.dropout={load_recipe(job.recipe, given).model['dropout']}"
    wanted = parameters_of(job.recipe, given, data)

    def settings(width: int) -> list[str]:
        return [*own, dropout, f"model.d_model={width}"]

    def size(width: int) -> int:
        return parameters_of(job.recipe, [*given, *settings(width)], data)

    widths = range(4, 2049, 4)
    place = bisect.bisect_left(widths, wanted, key=size)
    width = min(widths[max(0, place - 1) : place + 1], key=lambda width: abs(size(width) - wanted))
    return [*settings(width), f"training.learning_rate={rate}"]


def seconds_per_step(job: Job, overrides: list[str], run: Path, steps: int) -> float:
    """Train until there are four reports and stop; the first report is warm-up and does not count."""
    watching = ["training.steps=1000000", "training.validate_every=1000000", f"training.log_every={max(1, steps // 4)}"]
    command = [sys.executable, "-m", "heedful", "train", job.recipe, *overrides, *watching, "--run", str(run)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            rows: list[dict[str, Any]] = []
            while len(rows) < 4 and process.poll() is None:
                time.sleep(0.1)
                rows = read_metrics(run / "metrics.jsonl")
        finally:
            process.terminate()  # heedful finishes its step and exits with its workers
            process.wait()
        if len(rows) < 4:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}\nfailed:\n{errors.read()[-3000:]}")
    return float((rows[3]["seconds"] - rows[0]["seconds"]) / (rows[3]["step"] - rows[0]["step"]))


def steps_for(seconds: float, step_seconds: float, warmup: int) -> list[str]:
    """Settings of a training run that takes this long."""
    steps = max(2, round(seconds / step_seconds))
    every = max(1, math.ceil(steps / 10))
    warm = min(warmup, max(1, steps // 5))  # even a short run reaches the peak learning rate and decays again
    return [
        f"training.steps={steps}", f"training.warmup={warm}", f"training.validate_every={every}",
        f"training.checkpoint_every={every}", f"training.log_every={every}",
    ]  # fmt: skip


def length_ranges(lengths: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """Ranges (shortest, longest) with about equal counts; fewer ranges if a single length is very frequent."""
    ordered, found, low = sorted(lengths), [], min(lengths)
    for part in range(1, parts + 1):
        high = ordered[math.ceil(part * len(ordered) / parts) - 1]
        if high >= low:
            found.append((low, high))
            low = high + 1
    return found


def judge(job: Job, run: Path, test: Sequence[Pair], lengths: Sequence[int], ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The score of a run's final model on the test set, and on each range of lengths."""
    written = load_pipeline(run / "final").translate([source for source, _ in test])

    def score(low: float, high: float) -> float:
        chosen = [i for i, length in enumerate(lengths) if low <= length <= high]
        found = translation_scores([written[i] for i in chosen], [test[i][1] for i in chosen], tokenize="none")
        return round(float(found[job.metric]), 2)

    return {"score": score(0, math.inf), "by_length": [score(*r) for r in ranges]}


def compare(name: str, arguments: argparse.Namespace, minutes: float, folder: Path, transcript: Transcript) -> dict[str, Any]:
    """Train and score the three models on one job."""
    job = JOBS[name]
    given = [*data_overrides(name, arguments), f"training.workers={arguments.workers}"]
    data = folder / "data"
    recipe = load_recipe(job.recipe, given)
    TranslationTask.prepare(recipe, data, Silence())
    prepared = load_prepared(data)
    lengths = [job.length(source, prepared.source_tokenizer) for source, _ in prepared.test]
    ranges = length_ranges(lengths, PARTS)
    counts = [sum(low <= length <= high for length in lengths) for low, high in ranges]
    models: dict[str, Any] = {}
    for number, model in enumerate(MODELS):
        overrides = [*given, *model_overrides(job, model, given, data, arguments.recurrent_rate)]
        probe, run = folder / f"probe-{number}", folder / f"run-{number}"
        for place in (probe, run):
            shutil.copytree(data, place / "data")  # so that the data is not prepared again
        step_seconds = seconds_per_step(job, overrides, probe, arguments.probe_steps)
        overrides += steps_for(60 * minutes, step_seconds, recipe.training.warmup)
        watched = watch_heedful(job.recipe, overrides, run)
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        facts = heedful_facts(watched, run) | {"steps": results["steps"], "training_seconds": results["seconds"]}
        models[model] = {
            **{key: round(value, 2) for key, value in facts.items()},
            **judge(job, run, prepared.test, lengths, ranges),
        }
        transcript.say(f"{name}: {model}  {job.shown} {models[model]['score']:.2f} after {results['seconds']:.0f} s of training")
        shutil.rmtree(probe)
    return {"minutes": minutes, "ranges": ranges, "counts": counts, "models": models}


def print_tables(name: str, found: dict[str, Any], transcript: Transcript) -> None:
    """Size, time and score of each model, and its score by length."""
    job = JOBS[name]
    spans = [f"{low}–{high}" for low, high in found["ranges"]]
    transcript.say(f"\n{job.title}: {job.shown}, overall and by source length in {job.unit}")
    transcript.table(
        ("model", "parameters", "steps", "training, s", "tokens/s", "peak memory, MB", "overall", *spans),
        [
            (model, f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['training_seconds']:.0f}", f"{row['rate']:,.0f}",
             f"{row['megabytes']:,.0f}", f"{row['score']:.1f}", *(f"{score:.1f}" for score in row["by_length"]))
            for model, row in found["models"].items()
        ],
    )  # fmt: skip
    transcript.say(f"test pairs of each length: {', '.join(map(str, found['counts']))}")


def load_matplotlib() -> Any:
    """matplotlib's pyplot without a display, or an error that says how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise SystemExit("the plot needs matplotlib; install it with: pip install matplotlib, or leave --plot out") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def spread(places: dict[str, float], gap: float, low: float, high: float) -> dict[str, float]:
    """Positions of labels between low and high, moved apart to at least `gap` while keeping their order."""
    order = sorted(places, key=places.__getitem__)
    moved, least, most = dict(places), low, high
    for name in order:
        moved[name] = max(moved[name], least)
        least = moved[name] + gap
    for name in reversed(order):
        moved[name] = min(moved[name], most)
        most = moved[name] - gap
    return moved


def draw(summary: dict[str, Any], path: Path) -> None:
    """Plot score by length: one panel per job, one line per model, labelled with its name and its total change."""
    pyplot = load_matplotlib()
    jobs = summary["jobs"]
    figure, panels = pyplot.subplots(1, len(jobs), figsize=(6.6 * len(jobs), 5.2), squeeze=False, layout="constrained")
    figure.suptitle("What attention changes: score as the input gets longer", x=0.01, ha="left", fontsize=17, fontweight="bold")
    for axes, (name, found) in zip(panels[0], jobs.items(), strict=True):
        job, models = JOBS[name], found["models"]
        places = range(len(found["ranges"]))
        shown = [score for row in models.values() for score in row["by_length"]]
        top = 100.0 if job.metric == "exact" else max(10.0, 1.1 * max(shown))
        bottom = 5 * math.floor((min(shown) - 1) / 5) if min(shown) > 0.8 * top else 0.0  # zoom in if all lines are close
        tall = top - bottom
        wished = {model: row["by_length"][-1] for model, row in models.items()}
        ends = spread(wished, 0.11 * tall, bottom + 0.05 * tall, top - 0.01 * tall)
        for model, row in models.items():
            scores, colour = row["by_length"], MODELS[model][1]
            axes.plot(places, scores, color=colour, linewidth=2.6, marker="o", markersize=6, clip_on=False, zorder=3)
            change = f"{scores[-1] - scores[0]:+.1f} from shortest to longest".replace("-", "−")
            right = (len(places) - 1, scores[-1])
            beside = {"xytext": (len(places) - 0.78, ends[model]), "color": colour, "annotation_clip": False, "va": "center"}
            axes.annotate(model, right, fontsize=11.5, fontweight="bold", **beside)
            beside["xytext"] = (len(places) - 0.78, ends[model] - 0.047 * tall)
            axes.annotate(change, right, fontsize=9, **beside)
        size = sum(row["parameters"] for row in models.values()) / len(models) / 1e6
        about = f"{job.shown}; each model has about {size:.1f} M parameters and {found['minutes']:g} minutes of training"
        axes.set_title(job.title, loc="left", fontsize=13, fontweight="bold", pad=24)
        axes.text(0, 1.025, about, transform=axes.transAxes, fontsize=9.5, color="#555555")
        axes.set_xlabel(f"length of the source, {job.unit}", fontsize=10.5, color="#333333")
        axes.set_xticks(places, [f"{low}–{high}" if low < high else f"{low}" for low, high in found["ranges"]])
        axes.set_ylim(bottom, top)
        axes.set_xlim(-0.15, len(places) - 1)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#aaaaaa")
        axes.tick_params(colors="#333333", length=0)
        axes.grid(axis="y", color="#e8e8e8", linewidth=1)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=150, bbox_inches="tight", facecolor="white")
    pyplot.close(figure)


def main() -> None:
    """Train and score the models, print the tables and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/multi30k/tok"), help="folder with the text of Multi30k")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--minutes", type=float, nargs="+", default=[4.0, 15.0], help="training time: one number, or one per job")
    parser.add_argument("--pairs", type=int, default=200_000, help="training pairs of the dates job")
    parser.add_argument("--recurrent-rate", type=float, default=0.002, help="learning rate of the recurrent models")
    parser.add_argument("--probe-steps", type=int, default=80, help="steps for measuring the speed of a model")
    parser.add_argument("--workers", type=int, default=0, help="heedful's processes; 0: chosen automatically")
    parser.add_argument("--plot", type=Path, help="save the plot to this PNG file")
    parser.add_argument("--redraw", type=Path, help="train nothing; plot from this earlier output")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    arguments = parser.parse_args()
    if arguments.plot:
        load_matplotlib()  # fail now if it is missing, not after hours of training
    if arguments.redraw:
        if not arguments.plot:
            parser.error("--redraw needs --plot, the PNG to write")
        draw(json.loads(arguments.redraw.read_text(encoding="utf-8").splitlines()[-1]), arguments.plot)
        return
    if len(arguments.minutes) not in (1, len(arguments.jobs)):
        parser.error(f"--minutes takes one number, or one for each of the {len(arguments.jobs)} jobs")
    transcript = Transcript(arguments.output)
    minutes = arguments.minutes * (len(arguments.jobs) if len(arguments.minutes) == 1 else 1)
    jobs = {}
    for name, each in zip(arguments.jobs, minutes, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            jobs[name] = compare(name, arguments, each, Path(folder), transcript)
    for name, found in jobs.items():
        print_tables(name, found, transcript)
    summary = {"benchmark": "attention_matters", **transcript.circumstances, "jobs": jobs}
    transcript.say(json.dumps(summary))
    if arguments.plot:
        draw(summary, arguments.plot)


if __name__ == "__main__":
    main()
