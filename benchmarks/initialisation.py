"""What each initialisation does to the first 500 steps of the recipe `dates`.

    python benchmarks/initialisation.py --output initialisation.txt

The same data, order and schedule for each; only `model.init` differs. Loss is per token, on the training data, over the steps
since the number before; exact is the share of validation dates written right after the last step. `--set training.seed=2`
repeats all with another seed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import get_args

from heedful.nn.initialisation import Init
from heedful.runtime.run_log import read_metrics
from measuring import Transcript, watch_heedful

STEPS = 500
SHOWN = (25, 100, 250, STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--set", nargs="*", default=[], help="further overrides, such as training.seed=2")
    arguments = parser.parse_args()
    out = Transcript(arguments.output, measures=False)
    rows = []
    for init in get_args(Init):
        with tempfile.TemporaryDirectory() as folder:
            steps = [f"training.steps={STEPS}", "training.warmup=200", f"training.validate_every={STEPS}"]
            watch_heedful("dates", [*steps, f"model.init={init}", "training.workers=1", *arguments.set], Path(folder) / "run")
            entries = read_metrics(Path(folder) / "run" / "metrics.jsonl")
        losses = {entry["step"]: entry["loss"] for entry in entries if entry["kind"] == "train"}
        exact = [entry["exact"] for entry in entries if "exact" in entry][-1]
        rows.append([init, *(f"{losses[step]:.3f}" for step in SHOWN), f"{exact:.1f}"])
        out.say(" ".join(rows[-1]))
    out.table(["`model.init`", *(f"loss at {step}" for step in SHOWN), f"exact at {STEPS}, %"], rows)


if __name__ == "__main__":
    main()
