"""Several processes, whole commands: sharded weights, other numbers of processes, torchrun that starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_interruptions import children, command, start, wait_until

from conftest import Command
from heedful.training.checkpoint import list_checkpoints
from heedful.training.log import read_metrics

STEADY = ["model.dropout=0"]  # without it, the number of processes changes nothing but the order of sums


def losses(run: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "train"]


@pytest.fixture(scope="module")
def alone(pairs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, heedful: Command) -> Path:
    """One process from beginning to end."""
    run = tmp_path_factory.mktemp("alone") / "run"
    done = heedful(*command(pairs, run, 1), *STEADY)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize(("first", "then"), [("2 sharded", "1"), ("1", "2 sharded"), ("2 sharded", "2")])
def test_a_sharded_run_continues_on_one_process_and_the_reverse(
    first: str, then: str, pairs: tuple[Path, Path], alone: Path, tmp_path: Path
) -> None:
    def arguments(crew: str) -> list[str]:
        return [*command(pairs, tmp_path / "run", int(crew[0])), *STEADY, f"training.shard={'sharded' in crew}"]

    process = start(arguments(first))
    wait_until(lambda: len(list_checkpoints(tmp_path / "run" / "checkpoints")) >= 2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert "saved" in said, said
    process = start(arguments(then))
    said = process.communicate(timeout=200)[0]
    assert process.returncode == 0, said
    assert "continuing from step" in said
    # A run that stopped between two reports tells a mean over the rest of the second alone.
    wanted, found = losses(alone), losses(tmp_path / "run")
    assert len(found) == len(wanted)
    assert sum(abs(a - b) <= 2e-3 * a for a, b in zip(wanted, found, strict=True)) >= len(wanted) - 1


def test_torchrun_starts_again_from_the_last_checkpoint(pairs: tuple[Path, Path], alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    process = subprocess.Popen(
        [sys.executable, *torchrun, "-m", "--", "heedful", *command(pairs, run, 0), *STEADY],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: len(list_checkpoints(run / "checkpoints")) >= 2)
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    assert "continuing from step" in said
    assert (run / "results.json").exists()
    assert losses(run)[-1] == pytest.approx(losses(alone)[-1], rel=2e-3)
