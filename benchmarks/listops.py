"""ListOps of Long Range Arena: accuracy of every kind of attention after equal time, beside the published figures.

    python benchmarks/listops.py --minutes 5 --output listops.txt

The recipe `listops`, on one thread; only the kind of attention differs, and the number of steps: as many as the kind does in
these minutes of processor time, by the seconds per step measured right before. The schedule of the learning rate spans these
steps. Scored once, at the end, on 2,000 expressions that no training has seen.

The published figures are those of the authors' leaderboard of 8 November 2020 (github.com/google-research/long-range-arena); what
is `window` here is their local attention. They are from larger models that were trained for far longer than minutes on a CPU:
they say what is possible, not what these runs should reach. Two guesses are scored, too: always the most frequent value, and the
most frequent one of the expression's first symbol, its outermost operator.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from ablations import prepared
from heedful.data.listops import HELD_OUT_EXAMPLES, generate_listops
from heedful.nn.attention.kinds import AttentionKind
from heedful.recipes import load_recipe
from heedful.tasks.classification import ClassificationTask
from measuring import Transcript, processor_seconds, saved, watch_heedful

KINDS = get_args(AttentionKind)
STEPS_TIMED = 5
PUBLISHED = {"full": 36.37, "window": 15.82, "longformer": 35.63, "linformer": 35.70, "reformer": 37.27, "bigbird": 36.05}


def corpus(folder: Path, examples: int) -> list[str]:
    """Expressions to train on, to validate on once, and to test on: files, and the settings that name them."""
    settings = []
    for split, count in (("train", examples), ("valid", 100), ("test", HELD_OUT_EXAMPLES)):
        path = folder / f"{split}.tsv"
        lines = (f"{text}\t{value}\n" for text, value in generate_listops(split, count, 1))
        if not path.exists():
            path.write_text("".join(lines), encoding="utf-8")
        settings.append(f"data.{split}={path}")
    return settings


def guesses(folder: Path) -> dict[str, float]:
    """Accuracy on the test expressions of two guesses that compute nothing; what is frequent is counted in the training data."""
    trained, tested = (read(folder / f"{split}.tsv") for split in ("train", "test"))
    values = Counter(value for _, value in trained)
    by_operator: dict[str, Counter[str]] = {}
    for operator, value in trained:
        by_operator.setdefault(operator, Counter())[value] += 1
    most = {operator: counts.most_common(1)[0][0] for operator, counts in by_operator.items()}
    always = values.most_common(1)[0][0]
    right = {
        "always the most frequent value": sum(value == always for _, value in tested),
        "the most frequent value of the first symbol": sum(value == most.get(operator) for operator, value in tested),
    }
    return {name: 100 * count / len(tested) for name, count in right.items()}


def read(path: Path) -> list[tuple[str, str]]:
    """The first symbol and the value of every expression in a file."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(text.split(" ", 1)[0], value) for text, value in lines]


def measure(kind: str, minutes: float, given: Sequence[str], folder: Path) -> dict[str, Any]:
    """Accuracy on the test expressions after so many minutes of processor time; an interrupted run is continued."""
    data = prepared(load_recipe("listops", given), folder)  # once for all kinds
    recipe = load_recipe("listops", [f"model.attention_kind={kind}", *given])
    seconds = processor_seconds(ClassificationTask(recipe, data), STEPS_TIMED)
    run = folder / kind
    steps_file = run / "steps.txt"  # an interrupted run goes on with the number that it began with
    if not steps_file.exists():
        shutil.copytree(data, run / "data")
        steps_file.write_text(str(round(60 * minutes / seconds)))
    steps = int(steps_file.read_text())
    at_end = [f"training.{key}={steps}" for key in ("steps", "validate_every", "checkpoint_every")]
    warmup = f"training.warmup={max(1, steps // 10)}"
    watch_heedful("listops", [f"model.attention_kind={kind}", "training.workers=1", *at_end, warmup, *given], run)
    best = json.loads((run / "results.json").read_text(encoding="utf-8"))["best"]["test"]
    return {
        "seconds_per_step": round(seconds, 3),
        "steps": steps,
        "accuracy": round(best["accuracy"], 1),
        "loss": round(best["loss"], 3),
    }


def print_table(rows: Sequence[dict[str, Any]], transcript: Transcript) -> None:
    """One row per kind."""
    transcript.table(
        ("kind", "steps", "accuracy", "loss", "published"),
        [
            (row["kind"], f"{row['steps']:,}", f"{row['accuracy']:.1f} %", f"{row['loss']:.3f}",
             f"{PUBLISHED[row['kind']]:.1f} %" if row["kind"] in PUBLISHED else "–")
            for row in sorted(rows, key=lambda row: KINDS.index(row["kind"]))
        ],
    )  # fmt: skip


def main() -> None:
    """Measure what is not yet in --output, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS, help="none: only the guesses")
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time that each kind trains")
    parser.add_argument("--examples", type=int, default=96_000, help="expressions to train on [96,000 as published]")
    parser.add_argument("--set", nargs="+", default=[], metavar="section.key=value", help="overrides for all kinds")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and continue those that are there [they are deleted]")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file; what it has is not measured again")
    a = parser.parse_args()
    rows = list(saved(a.output, "kind")) if a.output else []
    transcript = Transcript(a.output, measures=False, append=bool(rows))
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        given = [*corpus(folder, a.examples), *a.set]
        for kind in [kind for kind in a.kinds if kind not in {row["kind"] for row in rows}]:
            rows.append({"kind": kind, **measure(kind, a.minutes, given, folder)})
            transcript.say(json.dumps(rows[-1]))
        guessed = guesses(folder)
    if rows:
        print_table(rows, transcript)
    for name, accuracy in guessed.items():
        transcript.say(f"{name}: {accuracy:.1f} %")
    if rows:
        transcript.say(f"after {a.minutes:g} minutes of processor time each; the published models were trained far longer")


if __name__ == "__main__":
    main()
