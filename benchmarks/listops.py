"""ListOps of Long Range Arena: accuracy of every kind of attention after equal time, beside the published figures.

    python benchmarks/listops.py speed --output speed.txt
    python benchmarks/listops.py accuracy --speeds speed.txt --minutes 5 --output accuracy.txt

The recipe `listops`; only the kind of attention differs, and the number of steps: as many as the kind does in these minutes of
processor time, by the seconds per step that `speed` has measured. The schedule of the learning rate spans these steps.

The published figures (Tay et al., 2020) are from larger models that were trained for longer than minutes on a CPU. They say what
is possible, not what these runs should reach.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from ablations import prepared
from heedful.nn.attention.kinds import AttentionKind
from heedful.recipes import load_recipe
from heedful.tasks.classification import ClassificationTask
from long_recall import saved
from measuring import Transcript, processor_seconds, watch_heedful

KINDS = get_args(AttentionKind)
PUBLISHED = {"full": 36.37, "longformer": 35.63, "linformer": 35.70, "reformer": 37.27, "bigbird": 36.05}


def train(kind: str, steps: int, given: Sequence[str], folder: Path, run: Path) -> dict[str, Any]:
    """Train with a kind for so many steps, on data prepared once for all kinds; returns results.json."""
    overrides = [f"model.attention_kind={kind}", f"training.steps={steps}", "training.workers=1", *given]
    if not (run / "data").exists():
        shutil.copytree(prepared(load_recipe("listops", given), folder), run / "data")
    watch_heedful("listops", overrides, run)
    found: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return found


def measure_speed(kind: str, steps: int, given: Sequence[str], folder: Path) -> dict[str, Any]:
    """Seconds of processor time of a training step, by one thread, which other programs on the machine do not change much."""
    recipe = load_recipe("listops", [f"model.attention_kind={kind}", *given])
    task = ClassificationTask(recipe, prepared(load_recipe("listops", given), folder))
    return {"seconds_per_step": round(processor_seconds(task, steps), 3)}


def measure_accuracy(kind: str, steps: int, given: Sequence[str], folder: Path) -> dict[str, Any]:
    """Accuracy on the test expressions of the best checkpoint; an interrupted run is continued."""
    every = [f"training.{key}={max(1, steps // 5)}" for key in ("validate_every", "checkpoint_every")]
    results = train(kind, steps, [*given, *every, f"training.warmup={max(1, steps // 10)}"], folder, folder / f"accuracy-{kind}")
    best = results["best"]["test"]
    return {"steps": steps, "accuracy": round(best["accuracy"], 1), "loss": round(best["loss"], 3)}


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
    parser.add_argument("what", choices=["speed", "accuracy"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--steps", type=int, default=4, help="of a measurement of speed")
    parser.add_argument("--speeds", type=Path, help="what `speed` has written, for `accuracy`")
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time that each kind trains")
    parser.add_argument("--set", nargs="+", default=[], metavar="section.key=value", help="overrides for all kinds")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and continue those that are there [they are deleted]")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file; what it has is not measured again")
    a = parser.parse_args()
    if a.what == "accuracy" and not a.speeds:
        parser.error("accuracy needs --speeds, the file that `speed` has written")
    speeds = {row["kind"]: row["seconds_per_step"] for row in saved(a.speeds)} if a.speeds else {}
    rows = list(saved(a.output)) if a.output else []
    transcript = Transcript(None if rows else a.output, measures=a.what == "speed")
    transcript.path = a.output  # when continuing, what is there is kept
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for kind in [kind for kind in a.kinds if kind not in {row["kind"] for row in rows}]:
            if a.what == "speed":
                found = measure_speed(kind, a.steps, a.set, folder)
            else:
                found = measure_accuracy(kind, round(60 * a.minutes / speeds[kind]), a.set, folder)
            rows.append({"kind": kind, **found})
            transcript.say(json.dumps(rows[-1]))
    if a.what == "accuracy":
        print_table(rows, transcript)
        transcript.say(f"after {a.minutes:g} minutes of processor time each; the published models were trained far longer")


if __name__ == "__main__":
    main()
