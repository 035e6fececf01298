"""What each initialisation does to the first 500 steps of the recipe `dates`.

    python benchmarks/initialisation.py --output initialisation.txt

The same data, order and schedule for each; only `model.init` differs. Loss is per token, on the training data, over the
last 25 steps; exact is the share of validation dates written right after the last step. `--set training.seed=2`
repeats all with another seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from heedful.nn.initialisation import Init
from heedful.runtime.run_log import read_metrics
from measuring import Transcript, saved, watch_heedful

STEPS = 500
SHOWN = (25, 100, 250, STEPS)


def measure(init: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Losses and share of exact dates after training with an initialisation."""
    ends = [f"training.{key}={STEPS}" for key in ("steps", "validate_every", "checkpoint_every")]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        watch_heedful("dates", [*ends, "training.warmup=200", f"model.init={init}", "training.workers=1", *overrides], run)
        entries = read_metrics(run / "metrics.jsonl")
    losses = {entry["step"]: entry["loss"] for entry in entries if entry["kind"] == "train"}
    exact = next(entry["exact"] for entry in reversed(entries) if "exact" in entry)
    return {**{f"loss at {step}": f"{losses[step]:.3f}" for step in SHOWN}, f"exact at {STEPS}, %": f"{exact:.1f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write what is printed to this file; what it has is not measured again")
    parser.add_argument("--set", nargs="*", default=[], help="further overrides, such as training.seed=2")
    arguments = parser.parse_args()
    rows = {row.pop("init"): row for row in saved(arguments.output, "init")} if arguments.output else {}
    out = Transcript(arguments.output, measures=False, append=bool(rows))
    for init in get_args(Init):
        if init not in rows:
            rows[init] = measure(init, arguments.set)
            out.say(json.dumps({"init": init, **rows[init]}))
    head = list(rows[get_args(Init)[0]])
    out.table(["`model.init`", *head], [[init, *(row[name] for name in head)] for init, row in rows.items()])


if __name__ == "__main__":
    main()
