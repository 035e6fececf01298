"""Several processes, whole commands: sharded weights, other numbers of processes, torchrun that starts again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_interruptions import children, command, start, wait_until

from conftest import Command
from heedful.recipes import load_recipe
from heedful.runtime.run_log import read_metrics
from heedful.training.checkpoint import list_checkpoints
from heedful.training.worker_trial import possible_workers

# Without dropout, the number of processes changes nothing but the order of sums.
STEADY = ["training.optimizer=adam", "training.steps=120", "model.dropout=0"]
TRIED = re.compile(r"trial: (\d+) workers? of \d+ threads?: ([\d,]+) tokens/s")


def losses(run: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "train"]


@pytest.fixture(scope="module")
def alone(pairs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, heedful: Command) -> Path:
    """One process from beginning to end."""
    run = tmp_path_factory.mktemp("alone") / "run"
    done = heedful(*command(pairs, run, 1), *STEADY)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.parametrize(("first", "then"), [("2 sharded", "1"), pytest.param("1", "2 sharded", marks=pytest.mark.slow)])
def test_a_sharded_run_continues_on_one_process_and_the_reverse(
    first: str, then: str, pairs: tuple[Path, Path], alone: Path, tmp_path: Path
) -> None:
    def arguments(crew: str) -> list[str]:
        return [*command(pairs, tmp_path / "run", int(crew[0])), *STEADY, f"training.shard={'sharded' in crew}"]

    process = start(arguments(first))
    wait_until(lambda: bool(list_checkpoints(tmp_path / "run" / "checkpoints")))
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=200)[0]
    assert "saved" in said, said
    process = start(arguments(then))
    said = process.communicate(timeout=200)[0]
    assert process.returncode == 0, said
    assert "continuing from step" in said
    # A resumed run's first report is the mean over the steps since it was resumed.
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
    wait_until(lambda: bool(list_checkpoints(run / "checkpoints")))
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    assert "continuing from step" in said
    assert (run / "results.json").exists()
    assert losses(run)[-1] == pytest.approx(losses(alone)[-1], rel=2e-3)


def test_the_number_of_workers_is_tried_out_told_and_kept(pairs: tuple[Path, Path], heedful: Command, tmp_path: Path) -> None:
    arguments = [*command(pairs, tmp_path / "run", 0), "training.steps=4", "training.batch_tokens=2000"]
    done = heedful(*arguments)
    assert done.returncode == 0, done.stderr
    tried = {int(count): float(rate.replace(",", "")) for count, rate in TRIED.findall(done.stdout + done.stderr)}
    assert set(tried) == set(possible_workers(torch.device("cpu"), 2000))
    picked = max(tried, key=tried.__getitem__, default=1)
    assert f"training with {picked} worker" in done.stdout + done.stderr
    assert load_recipe(str(tmp_path / "run" / "recipe.toml")).training.workers == picked


@pytest.mark.slow  # two runs of two processes
def test_under_torchrun_all_processes_train_the_helper_that_translates_plain_text(
    pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    plain = tmp_path / "plain.words"
    plain.write_text("one one one one one one one\ntwo two two two two two two\n", encoding="utf-8")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "--", "heedful"]
    arguments = [*command(pairs, tmp_path / "run", 0), f"data.monolingual_target={plain}", "training.steps=20"]
    done = subprocess.run([sys.executable, *torchrun, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for run in (tmp_path / "run", tmp_path / "run" / "reverse"):
        assert "2 process(es)" in (run / "best" / "README.md").read_text(encoding="utf-8")
    assert "plain text: 2 lines" in done.stdout
