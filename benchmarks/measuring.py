"""What the benchmarks of training share: a transcript, commands watched while they run, medians, ratios."""

from __future__ import annotations

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

import torch

from heedful.pipelines import load_pipeline
from heedful.training.log import read_metrics
from heedful.training.processes import cores
from train_speed import memory_with_children

BUSY = 0.5  # load before a benchmark begins, above which its speeds are not to be trusted


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
