"""Long-recall: accuracy, speed and memory of every kind of attention on documents of thousands of words.

    python benchmarks/long_recall.py accuracy --output accuracy.txt
    python benchmarks/long_recall.py cost --output cost.txt
    python benchmarks/long_recall.py speed --output speed.txt
    python benchmarks/long_recall.py table accuracy.txt cost.txt speed.txt

The recipe `long-recall` asks at the end of a document for what its first eighth states; only the length and the kind of
attention differ.

`accuracy` is `heedful train long-recall`: by the recipe's own documents, of which most are short, and scored on held-out ones of
the full length, after the same number of steps for every kind.

`speed` and `cost` train on documents that all have the full length. `speed` is the real command for a few steps: tokens per
second without the first report, and the peak memory of the process; run it on an idle machine without OMP_NUM_THREADS. `cost`
counts, in this process, what other programs hardly disturb: tokens per second of processor time by one thread, and the most bytes
of tensors that a step has at a time, beyond weights and batch.

`full` uses PyTorch's fused kernel, which never stores the L×L weights; with attention dropout (`--attention-dropout 0.1`, as BERT
was published) there is no such kernel on a CPU, and they are stored. `table` puts together what the others have written.
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
from heedful.complexity.measure import peak_bytes
from heedful.data.batches import Position
from heedful.data.long_recall import generate_long_recall
from heedful.nn.attention.kinds import AttentionKind
from heedful.recipes import load_recipe
from heedful.tasks.classification import ClassificationTask
from measuring import Transcript, heedful_rate, processor_seconds, saved, watch_heedful

KINDS = get_args(AttentionKind)
LENGTHS = (4096, 8192)
MEASURED = {
    "tokens_per_second": "tokens/s",
    "tokens_per_processor_second": "tokens per second of one core",
    "megabytes": "peak memory of the process, MB",
    "megabytes_counted": "of tensors, MB",
}
DOCUMENTS = 8  # one per step, when speed is measured
ENDS = ("steps", "validate_every", "checkpoint_every")


def sized(kind: str, length: int, workers: int) -> list[str]:
    """The settings of a kind and a length."""
    return [
        f"model.attention_kind={kind}",
        f"model.max_positions={length}",
        f"data.max_length={length}",
        f"training.workers={workers}",
    ]


def full_length(kind: str, length: int, dropout: float, folder: Path) -> list[str]:
    """The settings of a training on documents that all have the full length, one per step."""
    data, valid = (folder / f"{length}.{split}.tsv" for split in ("train", "valid"))
    if not valid.exists():
        lines = [f"{text}\t{label}\n" for text, label in generate_long_recall("test", DOCUMENTS, 1, length - 2)]
        data.write_text("".join(lines), encoding="utf-8")
        valid.write_text(lines[0], encoding="utf-8")
    settings = [f"data.train={data}", f"data.valid={valid}", f"training.batch_tokens={length}"]
    return [*sized(kind, length, 1), *settings, f"model.attention_dropout={dropout}"]


def measure_speed(kind: str, length: int, steps: int, dropout: float, folder: Path) -> dict[str, Any]:
    """Tokens per second and peak memory of the process while training on documents of the full length."""
    run = folder / f"{kind}-{length}-{dropout}"
    settings = [
        *full_length(kind, length, dropout, folder), *(f"training.{name}={steps}" for name in ENDS),
        "training.log_every=1", "training.validate_pairs=1",
    ]  # fmt: skip
    watched = watch_heedful("long-recall", settings, run)
    return {"tokens_per_second": round(heedful_rate(run) * length), "megabytes": round(watched.megabytes)}


def measure_cost(kind: str, length: int, steps: int, dropout: float, folder: Path) -> dict[str, Any]:
    """Processor time and counted memory of a training step on a document of the full length."""
    recipe = load_recipe("long-recall", full_length(kind, length, dropout, folder))
    task = ClassificationTask(recipe, prepared(recipe, folder))
    seconds = processor_seconds(task, steps)
    batch = next(batch for _, batch in task.batches(Position(), 0, 1) if batch is not None)
    model = task.build_model().train()
    task.loss(model, batch)[0].backward()  # makes the gradients, which stay like the weights
    counted = peak_bytes(lambda: task.loss(model, batch)[0].backward())
    return {"tokens_per_processor_second": round(length / seconds), "megabytes_counted": round(counted / 1e6)}


def measure_accuracy(kind: str, length: int, given: Sequence[str], folder: Path) -> dict[str, Any]:
    """Accuracy on held-out documents of the full length after training by the recipe; an interrupted run is continued."""
    run, settings = folder / f"{kind}-{length}", [*sized(kind, length, 1), *given]
    data = prepared(load_recipe("long-recall", settings), folder)  # once for all kinds
    shutil.copytree(data, run / "data", dirs_exist_ok=True)
    watch_heedful("long-recall", settings, run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return {
        "accuracy": round(results["final"]["test"]["accuracy"], 1),
        "steps": results["steps"],
        "training_seconds": round(results["seconds"]),
    }


def print_table(rows: Sequence[dict[str, Any]], transcript: Transcript) -> None:
    """One row per length, attention dropout and kind, beside full attention of the same."""
    merged: dict[tuple[int, float, str], dict[str, Any]] = {}
    for row in rows:
        merged.setdefault((row["length"], row.get("attention_dropout", 0.0), row["kind"]), {}).update(row)
    cells = []
    for (length, dropout, kind), row in sorted(merged.items(), key=lambda one: (one[0][0], one[0][1], KINDS.index(one[0][2]))):
        full = merged.get((length, dropout, "full"), {})
        beside = {key: f"{row[key] / full[key]:.2f}×" if key in row and key in full else "–" for key in MEASURED}
        shown = {key: f"{row[key]:,}" if key in row else "–" for key in MEASURED}
        cells.append([
            f"{length:,}", f"{dropout:g}", kind,
            f"{row['accuracy']:.1f} %" if "accuracy" in row else "–", f"{row['steps']:,}" if "steps" in row else "–",
            *(cell for key in MEASURED for cell in (shown[key], beside[key])),
        ])  # fmt: skip
    measured = [head for name in MEASURED.values() for head in (name, "vs. full")]
    head = ("length", "attention dropout", "kind", "accuracy", "steps", *measured)
    transcript.table(head, cells)


def main() -> None:
    """Measure what is not yet in --output, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["accuracy", "cost", "speed", "table"])
    parser.add_argument("files", nargs="*", type=Path, help="of `table`: what the others have written")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--steps", type=int, default=4, help="of `speed` and `cost`")
    parser.add_argument("--attention-dropout", type=float, default=0.0, help="of `speed` and `cost`")
    parser.add_argument("--set", nargs="+", default=[], metavar="section.key=value", help="of trainings for accuracy")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and continue those that are there [they are deleted]")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file; what it has is not measured again")
    a = parser.parse_args()
    if a.what == "table":
        print_table([row for path in a.files for row in saved(path, "kind")], Transcript(a.output, measures=False))
        return
    rows = list(saved(a.output, "kind")) if a.output else []
    transcript = Transcript(a.output, measures=a.what == "speed", append=bool(rows))
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for length in a.lengths:
            for kind in a.kinds:
                identity: dict[str, Any] = {"kind": kind, "length": length}
                if a.what != "accuracy":
                    identity["attention_dropout"] = a.attention_dropout
                if any(identity.items() <= row.items() for row in rows):
                    continue
                if a.what == "accuracy":
                    found = measure_accuracy(kind, length, a.set, folder)
                else:
                    measure = measure_speed if a.what == "speed" else measure_cost
                    found = measure(kind, length, a.steps, a.attention_dropout, folder)
                rows.append({**identity, **found})
                transcript.say(json.dumps(rows[-1]))
    print_table(rows, transcript)


if __name__ == "__main__":
    main()
