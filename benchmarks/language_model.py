"""A character-level GPT on tiny-shakespeare: heedful beside a GPT-2 of transformers, quality and speed in one run.

    python benchmarks/language_model.py --data ../shared/data/tinyshakespeare/input.txt.gz

The well-known CPU setting: 4 layers, 4 heads, 128 wide, context 64, 12 windows a step, 2,000 steps, no dropout; its
published validation loss is 1.88 nats a character. heedful is the real command, `heedful train`. The peer is the loop
people write around `GPT2LMHeadModel`, with one thread and with all cores: for so small a model either may be faster, and
ratios are to the fastest. Both learn from the same characters and are judged on the same windows of the last tenth of
the text. Every round has another seed. Tokens a second count the steps alone, without the first tenth of them.

Run it on a quiet machine without OMP_NUM_THREADS. The threads of one step wait for each other, so that other work on the
cores slows a peer of several threads down many times more than a process of one, and its ratio means nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from heedful.pipelines import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.tasks.language_model import LanguageModelTask
from heedful.training.log import read_metrics
from heedful.training.processes import cores
from heedful.training.screen import Silence
from train_speed import memory_with_children

REFERENCE = 1.88  # validation loss that this setting is known for
CONTEXT, WINDOWS, WIDTH, LAYERS, HEADS = 64, 12, 128, 4, 4
LEARNING_RATE, WEIGHT_DECAY, BETAS, CLIP = 1e-3, 0.1, (0.9, 0.99), 1.0
PEER = "transformers GPT-2"
BUSY = 0.5  # load before a benchmark begins, above which its speeds are not to be trusted


# What every benchmark of training shares


class Transcript:
    """Prints, and keeps what is printed in a file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        if path is not None:
            path.write_text("", encoding="utf-8")
        load, limit = os.getloadavg()[0], os.environ.get("OMP_NUM_THREADS")
        self.circumstances = {"cores": cores(), "load": round(load, 2), "omp_num_threads": limit}
        self.say(f"{cores()} cores, load {load:.2f} before the start, PyTorch {torch.__version__}")
        if load > BUSY or limit:
            self.say("these speeds are not to be trusted: the machine is busy, or OMP_NUM_THREADS limits some engines alone")

    def say(self, text: str = "") -> None:
        print(text, flush=True)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A Markdown table."""
        self.say()
        for cells in (head, ["---"] * len(head), *rows):
            self.say(f"| {' | '.join(cells)} |")
        self.say()


@dataclass(frozen=True)
class Watched:
    """A command that came to its end: what it printed, how long it took, and the most memory it held."""

    output: str
    seconds: float
    megabytes: float


def watch(command: Sequence[str]) -> Watched:
    """Run a command to its end. Memory is that of the process and the workers it started."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started, peak = time.perf_counter(), 0
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        try:
            while process.poll() is None:
                peak = max(peak, memory_with_children(process.pid))
                time.sleep(0.1)
        finally:
            process.kill()
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}\nfailed:\n{errors.read()[-3000:]}")
        return Watched(output.read(), seconds, peak / 1e6)


def watch_heedful(recipe: str, overrides: Sequence[str], run: Path) -> Watched:
    """Run `heedful train` to its end."""
    return watch([sys.executable, "-m", "heedful", "train", recipe, *overrides, "--run", str(run)])


def watch_peer(script: str, settings: Mapping[str, Any]) -> dict[str, float]:
    """Run a peer in a process of its own: what it says in its last line, with its time and memory in all."""
    watched = watch([sys.executable, script, "--peer", json.dumps(settings)])
    return {**json.loads(watched.output.splitlines()[-1]), "seconds": watched.seconds, "megabytes": watched.megabytes}


def heedful_rate(run: Path) -> float:
    """What a run learned from in a second (tokens, images …), without the first report, in which it warms up."""
    rows = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
    first = rows[0] if len(rows) > 1 else {"tokens": 0, "seconds": 0.0}
    return float((rows[-1]["tokens"] - first["tokens"]) / (rows[-1]["seconds"] - first["seconds"]))


def heedful_facts(watched: Watched, run: Path) -> dict[str, float]:
    """What is told of any run of heedful's, under the names that a peer's last line has too."""
    parameters = sum(parameter.numel() for parameter in load_pipeline(run / "final").model.parameters())
    return {
        "rate": heedful_rate(run),
        "parameters": parameters,
        "seconds": watched.seconds,
        "megabytes": watched.megabytes,
    }


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median over the rounds of everything measured."""
    return {key: round(statistics.median(row[key] for row in rounds), 4) for key in rounds[0]}


def beside_peers(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The speed of each engine as a multiple of the fastest that is not heedful."""
    fastest = max(row["rate"] for name, row in found.items() if not name.startswith("heedful"))
    return {name: row["rate"] / fastest for name, row in found.items()}


def counted(number: int, what: str) -> str:
    """`1 thread`, `2 threads`"""
    return f"{number} {what}{'s' * (number != 1)}"


def at_end_alone(steps: int) -> list[str]:
    """Settings of a run that does nothing beside its steps before the last one, and reports ten times."""
    every = [f"training.{key}={steps}" for key in ("validate_every", "checkpoint_every")]
    return [f"training.steps={steps}", *every, f"training.log_every={warm_steps(steps)}", "training.average=1"]


def warm_steps(steps: int) -> int:
    """The first tenth, which is not measured."""
    return max(1, steps // 10)


def adamw(model: torch.nn.Module, rate: float, decay: float, betas: tuple[float, float]) -> torch.optim.Optimizer:
    """The fastest AdamW of PyTorch, which like heedful's takes matrices alone towards zero."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)


# This benchmark


def overrides_of(data: str, steps: int, seed: int) -> list[str]:
    """heedful's settings of this job."""
    return [
        f"data.train={data}", "data.hold_out=0.1", "tokenizer.kind=char", "model.dropout=0", f"model.context={CONTEXT}",
        f"model.layers={LAYERS}", f"model.heads={HEADS}", f"model.d_model={WIDTH}", f"model.d_ff={4 * WIDTH}",
        f"training.batch_tokens={WINDOWS * CONTEXT}", f"training.seed={seed}", f"training.warmup={max(1, steps // 20)}",
        "training.schedule=linear", f"training.learning_rate={LEARNING_RATE}", f"training.weight_decay={WEIGHT_DECAY}",
        f"training.beta1={BETAS[0]}", f"training.beta2={BETAS[1]}", "training.epsilon=1e-8", f"training.clip={CLIP}",
        *at_end_alone(steps),
    ]  # fmt: skip


def measure_heedful(overrides: list[str], workers: int, run: Path) -> dict[str, float]:
    """One training by heedful."""
    watched = watch_heedful("language-model", [*overrides, f"training.workers={workers}"], run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return {**heedful_facts(watched, run), "loss": results["final"]["validation"]["loss"]}


def run_peer(settings: dict[str, Any]) -> dict[str, float]:
    """Inside the peer's process: train a GPT-2 on random windows, and judge it."""
    from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

    recipe, steps, seed = load_recipe("language-model", settings["overrides"]), settings["steps"], settings["seed"]
    task = LanguageModelTask(recipe, Path(settings["data"]))
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=task.tokenizer.size, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=task.tokenizer.bos, eos_token_id=task.tokenizer.eos,
    )  # fmt: skip
    config._attn_implementation = "sdpa"  # the fastest attention there is on a CPU
    model = GPT2LMHeadModel(config).train()
    optimizer = adamw(model, LEARNING_RATE, WEIGHT_DECAY, BETAS)
    schedule = get_linear_schedule_with_warmup(optimizer, recipe.training.warmup, steps)
    stream, chance, warm = np.asarray(task.stream), np.random.default_rng(seed), warm_steps(steps)
    started = time.perf_counter()
    for step in range(steps):
        if step == warm:
            started = time.perf_counter()
        starts = chance.integers(0, len(stream) - CONTEXT, WINDOWS)
        window = torch.from_numpy(stream[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64))
        logits = model(input_ids=window[:, :-1]).logits
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
    rate = (steps - warm if steps > warm else steps) * WINDOWS * CONTEXT / (time.perf_counter() - started)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"rate": rate, "parameters": parameters, "loss": validation_loss(model, task)}


@torch.no_grad()
def validation_loss(model: torch.nn.Module, task: LanguageModelTask) -> float:
    """Nats a token of the peer over the windows that heedful is judged on."""
    model.eval()
    total, count = 0.0, 0
    for start in range(0, len(task.valid), 64):
        group = [ids for ids, _ in task.valid[start : start + 64]]
        widest = max(map(len, group))
        rows = torch.tensor([ids + [-100] * (widest - len(ids)) for ids in group])  # -100: not to be judged
        logits = model(input_ids=rows[:, :-1].clamp(min=0)).logits
        total += float(cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"))
        count += sum(len(ids) - 1 for ids in group)
    return total / count


def prepared(recipe: Recipe, folder: Path) -> Path:
    """The data as heedful prepares it, for the peer to read."""
    LanguageModelTask.prepare(recipe, folder, Silence())
    return folder


def measure(arguments: argparse.Namespace, folder: Path, transcript: Transcript) -> dict[str, list[dict[str, float]]]:
    """Everyone once a round."""
    engines = [("heedful", workers) for workers in arguments.workers] + [(PEER, threads) for threads in arguments.threads]
    names = [f"{engine}, {counted(n, 'worker' if engine == 'heedful' else 'thread')}" for engine, n in engines]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(1, arguments.rounds + 1):
        overrides = overrides_of(str(Path(arguments.data).absolute()), arguments.steps, number)
        data = prepared(load_recipe("language-model", overrides), folder / f"data-{number}")
        for (engine, many), (name, rounds) in zip(engines, found.items(), strict=True):
            if engine == "heedful":
                rounds.append(measure_heedful(overrides, many, folder / f"run-{number}-{many}"))
            else:
                settings = {"overrides": overrides, "data": str(data), "steps": arguments.steps, "seed": number, "threads": many}
                rounds.append(watch_peer(__file__, settings))
            row = rounds[-1]
            transcript.say(f"round {number}: {name}  loss {row['loss']:.4f}  {row['rate']:,.0f} tokens/s")
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/tinyshakespeare/input.txt.gz", help="the text, plain or gzip")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="processes of heedful, each a row")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores()}), help="of the peer, each a row")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(run_peer(json.loads(arguments.peer))))
        return
    transcript = Transcript(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: medians(rounds) for name, rounds in measure(arguments, Path(folder), transcript).items()}
    ratios = beside_peers(found)
    transcript.table(
        ("engine", "parameters", "validation loss", "tokens/s", "× fastest peer", "seconds in all", "peak memory, MB"),
        [
            (name, f"{row['parameters']:,.0f}", f"{row['loss']:.4f}", f"{row['rate']:,.0f}", f"{ratios[name]:.2f}",
             f"{row['seconds']:.0f}", f"{row['megabytes']:,.0f}")
            for name, row in found.items()
        ],
    )  # fmt: skip
    transcript.say(
        f"medians of {counted(arguments.rounds, 'round')} of {arguments.steps:,} steps; the reference loss is {REFERENCE}"
    )
    settings = {"steps": arguments.steps, "rounds": arguments.rounds, "reference": REFERENCE, **transcript.circumstances}
    engines = {name: {**row, "ratio": round(ratios[name], 4)} for name, row in found.items()}
    transcript.say(json.dumps({"benchmark": "language_model", **settings, "engines": engines}))


if __name__ == "__main__":
    main()
