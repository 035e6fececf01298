"""Two real processes that train one model: with shared memory, without it, sharded; always the same weights."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from heedful.models.seq2seq import make_model
from heedful.runtime.processes import Processes
from heedful.training.flat_weights import FlatWeights
from heedful.training.weights import AdamSettings, Weights

STEPS, EMA, VOCAB = 4, 0.5, 13
ADAM: AdamSettings = {"betas": (0.9, 0.98), "eps": 1e-5}
PROGRAM = """
import sys
import time
from pathlib import Path
import torch.distributed as dist
import heedful.training.flat_memory as memory
from heedful.runtime.processes import joined, leave
sys.path.insert(0, sys.argv[1])
import test_together
kind, rank, folder = sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
if kind.startswith("sent"):
    memory.shared_floats = lambda *_: None
store = dist.FileStore(str(folder / "meeting"), 2)
with joined(rank, 2, store) as processes:
    test_together.train_together(kind, processes, folder)
if kind.startswith("sharded"):
    leave(0)
def gloo_threads():
    names = {task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")}
    return {name for name in names if "gloo" in name}
for _ in range(50):  # they end a moment after the group is destroyed
    if not gloo_threads():
        break
    time.sleep(0.1)
assert not gloo_threads()  # a thread that outlives Python may abort the process
"""


def small_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return make_model(VOCAB, VOCAB, 16, layers=2, d_ff=32, heads=4, dropout=0.0, tie="all")


def rows(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Five sentences of a step, and what to learn of them."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, VOCAB, (2, 5, 6), generator=generator)
    return tokens[0], tokens[1]


def share(step: int, rank: int, world: int) -> slice:
    """Unequal: the first of two processes has four sentences of five, and in one step all of them."""
    if world == 1:
        return slice(0, 5)
    first = 5 if step == 2 else 4
    return slice(0, first) if rank == 0 else slice(first, 5)


Loss = tuple[torch.Tensor, torch.Tensor, int]


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Loss:
    source, target = batch
    loss = cross_entropy(model(source, target).flatten(0, 1), source.flatten(), reduction="sum")
    return loss, loss, target.numel()


def train(
    weights: Weights, loss: Callable[..., tuple[torch.Tensor, torch.Tensor, int]], processes: Processes
) -> list[list[float]]:
    """A few steps as the trainer takes them; the norm and the sums of each."""
    sums_of_steps = []
    for step in range(STEPS):
        weights.clear()
        mine = share(step, processes.rank, processes.world)
        source, target = rows(step)
        numbers = torch.zeros(4)
        batch = (source[mine], target[mine])
        empty = len(batch[0]) == 0
        found, _, tokens = loss((source, target) if empty else batch)
        found = 0.0 * found if empty else found
        found.backward()
        numbers[0], numbers[2] = found.detach(), 0 if empty else tokens
        sums = weights.reduce(numbers)
        sums_of_steps.append([weights.norm, *sums])
        weights.update(0.01, 1.0 / sums[2], 0.001)
    return sums_of_steps


def train_together(kind: str, processes: Processes, folder: Path) -> None:
    """What each process of `PROGRAM` does; the first writes what came of it."""
    from safetensors.torch import save_file

    from heedful.training.sharded_weights import ShardedLoss, ShardedWeights

    model = small_model()
    weights: Weights
    if kind.startswith("sharded"):
        root = ShardedLoss(model, loss_of)
        weights = ShardedWeights(root, processes, ADAM, EMA, "muon" in kind)
        told = train(weights, root, processes)
        local = sum(p.to_local().numel() for p in weights.parameters)
        assert local < 0.6 * sum(p.numel() for p in small_model().parameters())  # a half each, or nearly
    else:
        weights = FlatWeights(model, processes, ADAM, EMA, "muon" in kind)
        assert weights.shares == kind.startswith("shared")
        told = train(weights, lambda batch: loss_of(model, batch), processes)
    # What was saved is restored, whichever process holds which part.
    kept = processes.gather({name: vector.clone() for name, vector in weights.vectors().items()})[0]
    weights.load({name: torch.zeros_like(vector) for name, vector in kept.items()}, 0)
    assert not any(bool(vector.any()) for vector in weights.vectors().values())
    processes.gather(None)
    weights.load(kept, STEPS)
    with weights.averaged():
        averaged = {name: vector.clone() for name, vector in weights.vectors().items()}
        processes.gather(None)
    tensors = {name: vector.clone() for name, vector in weights.vectors().items()}
    if processes.first:
        more = {"averaged": averaged["weights"], "told": torch.tensor(told)}
        save_file({**tensors, **more}, folder / "found.safetensors")


@pytest.mark.parametrize("kind", ["shared", "sent", "sharded", "shared-muon", "sent-muon", "sharded-muon"])
def test_two_processes_with_unequal_shares_equal_one(kind: str, tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, here, kind, str(rank), str(tmp_path)],
            stderr=subprocess.PIPE, text=True, env=environment,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    for worker in workers:
        said = worker.communicate(timeout=120)[1]
        assert worker.returncode == 0, said
    found = load_file(tmp_path / "found.safetensors")

    model = small_model()
    alone = FlatWeights(model, Processes(), ADAM, EMA, "muon" in kind)
    told = train(alone, lambda batch: loss_of(model, batch), Processes())
    torch.testing.assert_close(found["told"], torch.tensor(told), rtol=1e-5, atol=1e-5)
    for name, vector in alone.vectors().items():
        torch.testing.assert_close(found[name], vector, rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(found["averaged"], alone.vectors()["ema"], rtol=1e-4, atol=2e-5)
