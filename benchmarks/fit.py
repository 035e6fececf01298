"""The recipe that fits itself, beside fixed ones, over corpora of different size, language and domain, at equal time.

    python benchmarks/fit_corpora.py /path/to/multi30k/raw corpora
    python benchmarks/fit.py corpora --minutes 10 --seeds 1 2 --output benchmarks/results/fit.txt

For every corpus:

- `plain`: `translation` as it was before it took over the choices of `multi30k`: Adam, sinusoidal positions, no R-Drop
- `multi30k`: the fixed settings, made for 29,000 pairs
- `translation`: fitted to the corpus and the time

The time is processor time of one thread, so that other work on the machine changes little. Each training is planned for it by
a short measurement, with its whole schedule; the fixed recipes take as many steps as it allows, at most their own. What is
scored is the best model by validation, on the test pairs. Every row is written at once, and a row that the output already
has is not trained again. `--set` tries other values, which are judged on validation pairs and leave the test alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from heedful.jobs.registry import JOBS
from heedful.plan.plan import Clock, plan_pairs, validations
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Silence
from heedful.training.fit import Fit
from heedful.training.run import train
from heedful.training.worker_trial import SECONDS, measure_speed
from measuring import PAPER, Transcript

PLAIN = [*PAPER, "tokenizer.size=8000", "training.average=5", "decoding.beam=4", "decoding.length_penalty=0.6"]
SETTINGS = {"plain": ("multi30k", PLAIN), "multi30k": ("multi30k", []), "translation": ("translation", [])}
SIDES = ("source", "target")


def files_of(folder: Path, test: bool) -> list[str]:
    """The data section for a folder that `fit_corpora.py` wrote."""
    splits = {"": "train", "valid_": "val", **({"test_": "test"} if test else {})}
    return [f"data.{split}{side}={folder / name}.{side}" for split, name in splits.items() for side in SIDES]


def planned(name: str, overrides: list[str], seconds: float, folder: Path) -> tuple[Recipe, str]:
    """The recipe with everything settled for so many seconds of processor time, and its plan in words."""
    recipe = load_recipe(name, overrides)
    fit = Fit(recipe)
    first = fit.filled(fit.plan())
    JOBS[recipe.task].task_class.prepare(first, folder / "data", Silence())
    fit.look_at_prepared(folder / "data")
    first = fit.filled(fit.plan())
    speed = measure_speed(first, folder, Processes(), SECONDS, time.process_time)
    if recipe.open:
        plan = plan_pairs(fit.data, fit.given, seconds, speed)
        return fit.filled(plan), plan.summary
    share = recipe.training.r_drop_from if recipe.training.r_drop else 1.0
    judged = min(fit.data.valid, recipe.training.validate_pairs)
    steps = min(recipe.training.steps, Clock(speed, share, judged, fit.data.valid + fit.data.test).steps_in(seconds))
    every = -(-steps // validations(steps))
    rhythm = [f"training.{key}={every}" for key in ("validate_every", "checkpoint_every")]
    return load_recipe(name, [*overrides, f"training.steps={steps}", *rhythm]), f"{steps:,} steps"


def measure(corpus: Path, setting: str, minutes: float, seed: int, given: list[str]) -> dict[str, Any]:
    """Train one setting on one corpus, and score its best model."""
    name, own = SETTINGS[setting]
    overrides = [*files_of(corpus, not given), "training.workers=1", f"training.seed={seed}", *own, *given]
    with tempfile.TemporaryDirectory(prefix="heedful-fit-") as folder:
        recipe, plan = planned(name, overrides, 60 * minutes, Path(folder) / "trial")
        (Path(folder) / "run").mkdir()
        shutil.move(Path(folder) / "trial" / "data", Path(folder) / "run" / "data")
        started = time.process_time()
        results = train(recipe, Path(folder) / "run", Silence())
        used = time.process_time() - started
    best = results["best"]
    scores = {f"{split}_{key}": round(found[key], 2) for split, found in best.items() for key in ("bleu", "chrf")}
    signature = best["validation"]["bleu_signature"]
    return {"plan": plan, "processor_minutes": round(used / 60, 2), **scores, "signature": signature}


def saved(output: Path | None) -> list[dict[str, Any]]:
    """The rows that are there already."""
    lines = output.read_text(encoding="utf-8").splitlines() if output is not None and output.exists() else []
    return [json.loads(line) for line in lines if line.startswith('{"corpus"')]


def print_table(rows: list[dict[str, Any]], transcript: Transcript) -> None:
    """Test BLEU and chrF of every corpus, the mean over the seeds."""
    lines = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        cells = []
        for setting in SETTINGS:
            found = [row for row in rows if (row["corpus"], row["setting"]) == (corpus, setting) and "test_bleu" in row]
            means = [sum(row[key] for row in found) / len(found) for key in ("test_bleu", "test_chrf")] if found else []
            cells.append(", ".join(f"{mean:.1f}" for mean in means))
        pairs = next(row["pairs"] for row in rows if row["corpus"] == corpus)
        lines.append([corpus, f"{pairs:,}", *cells])
    transcript.table(("corpus", "pairs", *(f"{name}: BLEU, chrF" for name in SETTINGS)), lines)
    minutes, seeds = sorted({row["minutes"] for row in rows}), sorted({row["seed"] for row in rows})
    transcript.say(f"{minutes} minutes of processor time each, seeds {seeds}, {rows[0]['signature']}")


def main() -> None:
    """Train what has no row yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="the folder that fit_corpora.py wrote")
    parser.add_argument("--only", nargs="+", help="these corpora [all]")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time for each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", nargs="+", default=[], metavar="section.key=value", help="other values, judged on validation")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    a = parser.parse_args()
    torch.set_num_threads(1)
    names = a.only or sorted(path.name for path in a.corpora.iterdir() if path.is_dir())
    rows = saved(a.output)
    transcript = Transcript(None)
    transcript.path = a.output
    for name in names:
        pairs = sum(1 for _ in (a.corpora / name / "train.source").open(encoding="utf-8"))
        for setting in a.settings:
            for seed in a.seeds:
                cell = {"corpus": name, "setting": setting, "minutes": a.minutes, "seed": seed, "set": a.set}
                if not any(cell.items() <= row.items() for row in rows):
                    rows.append({**cell, "pairs": pairs, **measure(a.corpora / name, setting, a.minutes, seed, a.set)})
                    transcript.say(json.dumps(rows[-1]))
    print_table([row for row in rows if row["minutes"] == a.minutes], transcript)


if __name__ == "__main__":
    main()
