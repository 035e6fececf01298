"""The cost of a training step as batch size, width, depth, vocabulary or length grow, one at a time.

    python benchmarks/cost.py --output cost.txt

The step is the trainer's own (forward, label-smoothed loss, backward, clipping, Adam) on random tokens. All sequences have
the same length, so there is no padding. Starting from the `tiny` model of the recipe `multi30k`, one quantity is changed
at a time, each in its own process, with one thread or --threads. Tokens are target tokens; there are as many source tokens.
FLOPs are those of the model's matrix products, three times the forward pass. If cost scales as it should, GFLOP/s stay
constant or rise with the size of the products. Memory is the peak of the process, and its increase after Python, PyTorch
and heedful were loaded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.data.batches import Position
from heedful.data.collation import Batch, SpecialIds, collate
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.processes import Processes
from heedful.runtime.screen import Silence
from heedful.tasks.task import Task
from heedful.tasks.translation import TranslationTask
from heedful.training.step_window import StepWindow
from heedful.training.trainer import Trainer
from measuring import PAPER, Transcript, counted, watch
from train_speed import flops_per_token

USUAL = {"batch tokens": 4096, "width": 128, "depth": 4, "vocabulary": 8000, "length": 32}
VARIED = {
    "batch tokens": [1024, 2048, 4096, 8192, 16384],
    "width": [64, 128, 256, 512],
    "depth": [1, 2, 4, 8],
    "vocabulary": [1000, 2000, 4000, 8000, 16000, 32000],
    "length": [8, 16, 32, 64, 128, 256],
}
HEAD = 32  # width of a head, as in `tiny`
SPECIAL = SpecialIds(source_pad=0, source_eos=3, target_pad=0, target_bos=2, target_eos=3)


def recipe_of(shape: dict[str, int]) -> Recipe:
    """The translation recipe with a model of this shape."""
    width = shape["width"]
    model = {"layers": shape["depth"], "d_model": width, "d_ff": 2 * width, "heads": width // HEAD}
    overrides = [f"model.{key}={value}" for key, value in model.items()]
    one_kind = ["training.device=cpu", "training.precision=float32"]  # the same arithmetic at every width
    return load_recipe("multi30k", [*overrides, f"training.batch_tokens={shape['batch tokens']}", *one_kind, *PAPER])


class RandomPairs(TranslationTask):
    """Translation of random tokens to random tokens, which needs no files."""

    def __init__(self, recipe: Recipe, shape: dict[str, int]) -> None:
        Task.__init__(self, recipe, Path())
        self.shape = shape
        self.config = self.model_config(source_vocab=shape["vocabulary"], target_vocab=shape["vocabulary"])

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, Batch]]:
        rng = np.random.default_rng(1)
        length, vocabulary = self.shape["length"], self.shape["vocabulary"]
        count = max(1, self.shape["batch tokens"] // length)
        # length - 1, because the begin or end token is added.
        source, target = rng.integers(4, vocabulary, (2, count, length - 1), dtype=np.uint32)
        return repeat((position, collate(list(source), list(target), SPECIAL)))


def memory(name: str) -> int:
    """Resident bytes of this process: current (VmRSS) or peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Inside its own process: measure some steps of one shape."""
    shape = settings["shape"]
    recipe, before = recipe_of(shape), memory("VmRSS")
    task = RandomPairs(recipe, shape)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(task, recipe, Path(folder), Processes(), Silence())
        torch.set_num_threads(settings["threads"])  # after the trainer has set its own number
        data, window, times = task.batches(Position(), 0, 1), StepWindow(trainer.progress), []
        for _ in range(1 + settings["steps"]):
            started = time.perf_counter()
            trainer.step(data, window)
            times.append(time.perf_counter() - started)
    step_seconds = statistics.median(times[1:])  # the first one allocates
    tokens, batch = trainer.progress.tokens / len(times), next(data)[1]
    flops = flops_per_token(task.config, [batch])
    return {
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "seconds_per_step": step_seconds,
        "tokens_per_second": tokens / step_seconds,
        "flops_per_token": flops,
        "flops_per_second": tokens * flops / step_seconds,
        "peak_bytes": memory("VmHWM"),
        "peak_bytes_beyond_start": memory("VmHWM") - before,
    }


def print_table(rows: list[dict[str, Any]], transcript: Transcript) -> None:
    """One row per value of the varied quantity."""
    transcript.table(
        ("varied", "value", "parameters", "ms per step", "tokens/s", "MFLOP per token", "GFLOP/s", "peak, MB", "above start, MB"),
        [
            (row["varied"], f"{row['value']:,}", f"{row['parameters']:,}", f"{1e3 * row['seconds_per_step']:,.0f}",
             f"{row['tokens_per_second']:,.0f}", f"{row['flops_per_token'] / 1e6:.1f}", f"{row['flops_per_second'] / 1e9:.1f}",
             f"{row['peak_bytes'] / 1e6:,.0f}", f"{row['peak_bytes_beyond_start'] / 1e6:,.0f}")
            for row in rows
        ],
    )  # fmt: skip


def main() -> None:
    """Measure every shape once and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vary", nargs="+", choices=VARIED, default=list(VARIED))
    parser.add_argument("--values", type=int, nargs="+", help="values for the single quantity that --vary names")
    parser.add_argument("--steps", type=int, default=5, help="measured steps per shape, after one warm-up step")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(json.loads(arguments.one))))
        return
    if arguments.values and len(arguments.vary) != 1:
        parser.error("--values needs --vary with a single quantity")
    varied = [(name, value) for name in arguments.vary for value in arguments.values or VARIED[name]]
    transcript = Transcript(arguments.output)
    known: dict[str, dict[str, float]] = {}  # the default shape occurs in every group but is measured once
    rows = []
    for name, value in varied:
        shape = {**USUAL, name: value}
        key = json.dumps(shape)
        if key not in known:
            settings = {"shape": shape, "steps": arguments.steps, "threads": arguments.threads}
            printed = watch([sys.executable, __file__, "--one", json.dumps(settings)]).output
            known[key] = json.loads(printed.splitlines()[-1])
        rows.append({"varied": name, "value": value, **known[key]})
        transcript.say(f"{name} {value:,}: {rows[-1]['tokens_per_second']:,.0f} tokens/s")
    print_table(rows, transcript)
    usual = ", ".join(f"{name} {value:,}" for name, value in USUAL.items())
    transcript.say(f"otherwise {usual}; medians of {counted(arguments.steps, 'step')}, {counted(arguments.threads, 'thread')}")
    summary = {"usual": USUAL, "steps": arguments.steps, "threads": arguments.threads, **transcript.circumstances, "rows": rows}
    transcript.say(json.dumps({"benchmark": "cost", **summary}))


if __name__ == "__main__":
    main()
