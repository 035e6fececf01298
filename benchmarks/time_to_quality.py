"""Minutes of training until the validation BLEU first reached given scores, from the metrics of existing runs.

    python benchmarks/time_to_quality.py runs/multi30k

A run's `metrics.jsonl` has the score of every validation and the seconds of training so far, without validation,
checkpoints and preparation. Validation during training uses the first `training.validate_pairs` pairs and the recipe's
`decoding.validation_beam` (greedy by default); the output includes this beam size and the BLEU signature. The first
validation at or above a score counts; scores are not interpolated.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heedful.runtime.run_log import read_metrics
from measuring import Transcript, counted

SCORES = (35.0, 38.0, 40.0, 41.0)


def times_of(run: Path, scores: Sequence[float]) -> dict[str, Any]:
    """Minutes and steps to each score (None: not reached), the best score, and how it was measured."""
    entries = read_metrics(run / "metrics.jsonl")
    steps, seconds = zip((0, 0.0), *((row["step"], row["seconds"]) for row in entries if row["kind"] == "train"), strict=True)
    validations = [row for row in entries if row["kind"] == "valid" and row.get("bleu") is not None]
    if not validations:
        raise SystemExit(f"there is no validation with a BLEU in {run / 'metrics.jsonl'}")
    # Validation steps need not be logged steps, so times are interpolated.
    minutes = {row["step"]: round(float(np.interp(row["step"], steps, seconds)) / 60, 2) for row in validations}
    found: dict[str, Any] = {}
    for score in scores:
        step = next((row["step"] for row in validations if row["bleu"] >= score), None)
        found[f"{score:g}"] = None if step is None else {"step": step, "minutes": minutes[step]}
    best = max(validations, key=lambda row: row["bleu"])
    recipe = tomllib.loads((run / "recipe.toml").read_text(encoding="utf-8"))
    return {
        "reached": found,
        "best": {"bleu": round(best["bleu"], 2), "step": best["step"], "minutes": minutes[best["step"]]},
        "last": {"step": steps[-1], "minutes": round(seconds[-1] / 60, 2)},
        "signature": best["bleu_signature"],
        "beam": recipe["decoding"]["validation_beam"],
        "pairs": recipe["training"]["validate_pairs"],
        "workers": recipe["training"]["workers"],
    }


def print_times(run: Path, found: dict[str, Any], transcript: Transcript) -> None:
    """The table of one run, and how its scores were measured."""
    rows = [
        (f"{score} BLEU", f"{reached['minutes']:.1f}", f"{reached['step']:,}")
        if reached
        else (f"{score} BLEU", "not reached", "")
        for score, reached in found["reached"].items()
    ]
    best, last = found["best"], found["last"]
    rows.append((f"best: {best['bleu']:.2f} BLEU", f"{best['minutes']:.1f}", f"{best['step']:,}"))
    rows.append(("last step", f"{last['minutes']:.1f}", f"{last['step']:,}"))
    transcript.say(f"\n{run}, {counted(found['workers'], 'worker')}")
    transcript.table(("validation", "minutes of training", "step"), rows)
    search = "greedy" if found["beam"] == 1 else f"beam {found['beam']}"
    transcript.say(f"BLEU on validation pairs ({found['pairs']:,} at most), {search}, {found['signature']}")


def main() -> None:
    """Read the runs and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run directories of `heedful train`")
    parser.add_argument("--scores", type=float, nargs="+", default=SCORES, help="BLEU to reach")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    arguments = parser.parse_args()
    found = {str(run): times_of(run, arguments.scores) for run in arguments.runs}
    transcript = Transcript(arguments.output, measures=False)
    for run in arguments.runs:
        print_times(run, found[str(run)], transcript)
    transcript.say(json.dumps({"benchmark": "time_to_quality", "runs": found}))


if __name__ == "__main__":
    main()
