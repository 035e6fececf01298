"""Ablations of a recipe: the recipe as shipped, and variants with one setting changed at a time.

    python benchmarks/ablations.py --data ../shared/data/multi30k/tok --output ablations.txt

Each variant is trained by `heedful train` and scored on the validation pairs with its recipe's `decoding.beam`; the test
set is not used. A single run per variant says little about differences below half a BLEU: `--set training.seed=2` repeats
all of them with another seed.

The result of a variant is in --output as soon as it is finished. `--resume` continues with the others and, with --folder,
also in the middle of an interrupted one.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attention_matters import file_of
from heedful.data.splits import hash_of
from heedful.errors import UsageError
from heedful.jobs.registry import JOBS as ALL_JOBS
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.screen import Silence
from measuring import Transcript, heedful_facts, watch_heedful

AS_SHIPPED = "as shipped"
# Name → overrides. A variant that changes nothing in the recipe is left out.
VARIANTS: dict[str, list[str]] = {
    AS_SHIPPED: [],
    "R-Drop": ["training.r_drop=1"],
    "R-Drop from the first step": ["training.r_drop_from=0"],
    "no R-Drop": ["training.r_drop=0"],
    "Adam": ["training.optimizer=adam"],
    "no weight decay": ["training.weight_decay=0"],
    "BPE dropout 0.1": ["training.bpe_dropout=0.1"],
    "no running average": ["training.ema=0"],
    "no average of checkpoints": ["training.average=1"],
    "no label smoothing": ["training.label_smoothing=0"],
    "dropout 0.1": ["model.dropout=0.1"],
    "dropout 0.2": ["model.dropout=0.2"],
    "attention dropout 0.1": ["model.attention_dropout=0.1"],
    "post-norm": ["model.norm=post"],
    "sinusoidal positions": ["model.positions=sinusoidal"],
    "learned positions": ["model.positions=learned"],
    "relative positions": ["model.positions=relative"],
    "decoder layers that mix encoder layers": ["model.reads=mix"],
    "embeddings not tied": ["model.tie=none"],
    "two vocabularies": ["tokenizer.joint=false", "model.tie=target"],
    "a vocabulary of 4,000": ["tokenizer.size=4000"],
    "batches of 2,048 tokens": ["training.batch_tokens=2048"],
    "schedule of the paper": ["training.schedule=inverse-sqrt"],
}


def given_overrides(arguments: argparse.Namespace) -> list[str]:
    """The overrides that all variants share."""
    files = {"source": "train.en", "target": "train.de", "valid_source": "val.en", "valid_target": "val.de"}
    steps = [f"training.steps={arguments.steps}"] if arguments.steps else []
    return [*(f"data.{key}={file_of(arguments.data, name)}" for key, name in files.items()), *steps, *arguments.set]


def changes(shipped: Recipe, variant: Recipe) -> dict[str, list[Any]]:
    """Setting → [as shipped, in the variant], where they differ."""
    before, after = shipped.flat(), variant.flat()
    return {key: [before.get(key), after.get(key)] for key in {**before, **after} if before.get(key) != after.get(key)}


def changes_of(recipe: str, given: list[str], names: list[str]) -> dict[str, dict[str, list[Any]]]:
    """What each variant changes; an unknown setting is an error before anything is trained."""
    found = {}
    for name in names:
        try:
            found[name] = changes(load_recipe(recipe, given), load_recipe(recipe, [*given, *VARIANTS[name]]))
        except UsageError as error:
            raise SystemExit(f"'{name}': {error}") from error
    return {name: changed for name, changed in found.items() if changed or name == AS_SHIPPED}


def saved_rows(output: Path, job: dict[str, Any], changed: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, Any]]:
    """The rows that an earlier run of the same job has written; a truncated line is ignored."""
    rows: dict[str, dict[str, Any]] = {}
    for line in output.read_text(encoding="utf-8").splitlines() if output.exists() else []:
        try:
            row = json.loads(line) if line.startswith('{"variant"') else {}
        except ValueError:
            continue
        if row and (row["job"] != job or row["changed"] != changed.get(row["variant"], row["changed"])):
            raise SystemExit(f"'{row['variant']}' in {output} was trained with other settings; give another --output")
        if row:
            rows[row["variant"]] = row
    return rows


def prepared(recipe: Recipe, folder: Path) -> Path:
    """The data of a recipe, prepared once for all variants with the same text, tokenizer and seed."""
    made_of = {"data": vars(recipe.data), "tokenizer": vars(recipe.tokenizer), "seed": recipe.training.seed}
    data = folder / f"data-{hash_of(json.dumps(made_of)):016x}"
    ALL_JOBS[recipe.task].task_class.prepare(recipe, data, Silence())
    return data


def measure(name: str, recipe: str, overrides: list[str], folder: Path) -> dict[str, Any]:
    """Train and score one variant."""
    run = folder / re.sub(r"\W+", "-", name.lower())
    shutil.copytree(prepared(load_recipe(recipe, overrides), folder), run / "data", dirs_exist_ok=True)
    watched = watch_heedful(recipe, overrides, run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    facts = heedful_facts(watched, run)
    scores = {which: results[which]["validation"] for which in ("final", "best")}
    return {
        "steps": results["steps"],
        "final": round(scores["final"]["bleu"], 2),
        "best": round(scores["best"]["bleu"], 2),
        "signature": scores["final"]["bleu_signature"],
        "parameters": facts["parameters"],
        "training_seconds": results["seconds"],
        "megabytes": round(facts["megabytes"]),
    }


def print_table(rows: dict[str, dict[str, Any]], transcript: Transcript) -> None:
    """All variants in list order, with their difference from the recipe as shipped, if that was run."""
    ordered = [rows[name] for name in VARIANTS if name in rows]
    shipped = rows.get(AS_SHIPPED)

    def worth(row: dict[str, Any]) -> str:
        return f"{row['final'] - shipped['final']:+.2f}" if shipped and row is not shipped else ""

    transcript.table(
        ("variant", "changed", "BLEU, final", "vs. as shipped", "BLEU, best", "parameters", "training, s", "peak memory, MB"),
        [
            (row["variant"], ", ".join(f"{key} {old} → {new}" for key, (old, new) in row["changed"].items()),
             f"{row['final']:.2f}", worth(row), f"{row['best']:.2f}", f"{row['parameters']:,}",
             f"{row['training_seconds']:,.0f}", f"{row['megabytes']:,}")
            for row in ordered
        ],
    )  # fmt: skip
    signatures = sorted({row["signature"] for row in ordered})
    transcript.say(f"BLEU on the validation pairs, {'; '.join(signatures)}; one run each")


def main() -> None:
    """Train every variant without a result yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/multi30k/tok"), help="folder with the text of Multi30k")
    parser.add_argument("--recipe", default="multi30k", help="a shipped recipe or a TOML file")
    parser.add_argument("--steps", type=int, help="training steps of each variant [the recipe's]")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME", help="only these variants")
    parser.add_argument("--set", nargs="+", default=[], metavar="section.key=value", help="overrides for all variants")
    parser.add_argument("--folder", type=Path, help="keep the runs here [they are deleted]")
    parser.add_argument("--resume", action="store_true", help="skip the variants that --output already has")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    arguments = parser.parse_args()
    if arguments.resume and not arguments.output:
        parser.error("--resume needs --output, the file of the earlier run")
    given = given_overrides(arguments)
    job = {"recipe": arguments.recipe, "steps": arguments.steps, "set": arguments.set}
    changed = changes_of(arguments.recipe, given, arguments.only)
    rows = saved_rows(arguments.output, job, changed) if arguments.resume else {}
    transcript = Transcript(None if arguments.resume else arguments.output)
    transcript.path = arguments.output  # when resuming, existing output is kept
    left_out = [name for name in arguments.only if name not in changed]
    transcript.say(f"left out, because they change nothing: {', '.join(left_out)}" if left_out else "")
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in [name for name in changed if name not in rows]:
            found = measure(name, arguments.recipe, [*given, *VARIANTS[name]], folder)
            rows[name] = {"variant": name, "job": job, "changed": changed[name], **found}
            transcript.say(json.dumps(rows[name]))
    print_table(rows, transcript)
    transcript.say(json.dumps({"benchmark": "ablations", **job, **transcript.circumstances, "variants": rows}))


if __name__ == "__main__":
    main()
