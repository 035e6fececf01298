"""Shared by the training benchmarks: a transcript, commands run with time and memory measured, medians, ratios."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from heedful.data.batches import Position
from heedful.pipelines import load_pipeline
from heedful.runtime.cores import cores
from heedful.runtime.run_log import read_metrics
from heedful.tasks.task import AnyTask
from heedful.training.optimizer_step import PIECE, PIECE_NUMBERS

BUSY = 0.5  # with a higher load before the start, speeds are unreliable


class Transcript:
    """Prints, and copies the output to a file. With `measures`, it begins with the state of the machine.

    With `append`, what the file has is kept, so that a measurement can go on.
    """

    def __init__(self, path: Path | None, measures: bool = True, append: bool = False) -> None:
        self.path = path
        if path is not None and not append:
            path.write_text("", encoding="utf-8")
        load, limit = os.getloadavg()[0], os.environ.get("OMP_NUM_THREADS")
        self.circumstances = {"cores": cores(), "load": round(load, 2), "omp_num_threads": limit}
        if measures:
            self.say(f"{cores()} cores, load {load:.2f} before the start, PyTorch {torch.__version__}")
        if measures and (load > BUSY or limit):
            self.say("these speeds are unreliable: the machine is busy, or OMP_NUM_THREADS limits only some engines")

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


def saved(path: Path, key: str) -> Iterator[dict[str, Any]]:
    """The rows that an earlier run has written to its transcript, as JSON objects whose first key is this one."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith(f'{{"{key}"'):
            yield json.loads(line)


def with_children(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has just ended
                parents[int(name)] = int(read_process(int(name), "stat").rsplit(")", 1)[1].split()[1])
    processes = [pid]
    for process in processes:
        processes += [child for child, parent in parents.items() if parent == process]
    return processes


def read_process(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, including shared pages."""
    return int(read_process(pid, "statm").split()[1]) * resource.getpagesize()


def own_bytes(pid: int) -> int:
    """Proportional set size (Pss) of a process, or its resident memory where the kernel does not report Pss."""
    with suppress(OSError):
        for line in read_process(pid, "smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return resident_bytes(pid)


def added_up(measure: Callable[[int], int], pids: Sequence[int]) -> int:
    """The sum over processes, some of which may just have ended."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += measure(pid)
    return total


def memory_with_children(pid: int) -> int:
    """Bytes in memory of a process and its descendants; shared memory counts once."""
    return added_up(own_bytes, with_children(pid))


class PeakMemory:
    """The maximum of `memory_with_children`, sampled by calls to `look`.

    Computing Pss takes the kernel at least 10 ms per gigabyte, during which the process cannot allocate memory. To avoid
    slowing it down, Pss is read only when resident memory is higher than ever before.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.resident = self.bytes = 0

    def look(self) -> None:
        resident = added_up(resident_bytes, with_children(self.pid))
        if resident > self.resident:
            self.resident = resident
            self.bytes = max(self.bytes, memory_with_children(self.pid))

    @property
    def megabytes(self) -> float:
        return self.bytes / 1e6


@dataclass(frozen=True)
class Watched:
    """A finished command: its output, its duration and its peak memory."""

    output: str
    seconds: float
    megabytes: float


def watch(command: Sequence[str]) -> Watched:
    """Run a command to its end. Memory includes its worker processes."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        memory = PeakMemory(process.pid)
        try:
            while process.poll() is None:
                memory.look()
                time.sleep(0.2)
        finally:
            process.kill()
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}\nfailed:\n{errors.read()[-3000:]}")
        return Watched(output.read(), seconds, memory.megabytes)


def watch_heedful(recipe: str, overrides: Sequence[str], run: Path) -> Watched:
    """Run `heedful train` to its end."""
    return watch([sys.executable, "-m", "heedful", "train", recipe, *overrides, "--run", str(run)])


def watch_peer(script: str, settings: Mapping[str, Any]) -> dict[str, float]:
    """Run a peer in its own process: the JSON of its last line, with its total time and peak memory."""
    watched = watch([sys.executable, script, "--peer", json.dumps(settings)])
    return {**json.loads(watched.output.splitlines()[-1]), "seconds": watched.seconds, "megabytes": watched.megabytes}


def heedful_rate(run: Path) -> float:
    """Training throughput of a run (tokens, images … per second), without the first report, which is warm-up."""
    rows = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
    first = rows[0] if len(rows) > 1 else {"tokens": 0, "seconds": 0.0}
    return float((rows[-1]["tokens"] - first["tokens"]) / (rows[-1]["seconds"] - first["seconds"]))


def processor_seconds(task: AnyTask, steps: int) -> float:
    """Processor time of forward and backward on a batch of a task, by one thread, without the first batch.

    Unlike speeds, it is hardly changed by other programs on the machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = task.build_model().train()
    pieces = max(PIECE, PIECE_NUMBERS // task.config.d_model)
    seconds = []
    for _, batch in islice(task.batches(Position(), 0, 1), steps):
        started = time.process_time()
        for piece in batch.pieces(pieces) if batch is not None else []:
            task.loss(model, piece)[0].backward()
        seconds.append(time.process_time() - started)
    torch.set_num_threads(threads)
    return statistics.mean(seconds[1:])


def heedful_facts(watched: Watched, run: Path) -> dict[str, float]:
    """Facts about a run of heedful, under the same keys as in a peer's last line."""
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
    """The speed of each engine as a multiple of the fastest engine other than heedful."""
    fastest = max(row["rate"] for name, row in found.items() if not name.startswith("heedful"))
    return {name: row["rate"] / fastest for name, row in found.items()}


def counted(number: int, what: str) -> str:
    """`1 thread`, `2 threads`"""
    return f"{number} {what}{'s' * (number != 1)}"


# The paper's own training, which other toolkits do too, in place of what the `translation` recipe adds to it.
PAPER_TRAINING = ["training.optimizer=adam", "training.weight_decay=0", "training.ema=0", "training.r_drop=0"]
PAPER = ["model.positions=sinusoidal", *PAPER_TRAINING]


def at_end_alone(steps: int) -> list[str]:
    """Settings of a run that validates and saves only after its last step, and reports ten times."""
    every = [f"training.{key}={steps}" for key in ("validate_every", "checkpoint_every")]
    return [f"training.steps={steps}", *every, f"training.log_every={warm_steps(steps)}", "training.average=1"]


def warm_steps(steps: int) -> int:
    """The first tenth of the steps, which is not measured."""
    return max(1, steps // 10)


def adamw(model: torch.nn.Module, rate: float, decay: float, betas: tuple[float, float]) -> torch.optim.Optimizer:
    """PyTorch's fastest AdamW; like heedful's, it decays only matrices."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)
