"""Runs that are killed, interrupted, damaged or starved of disk lose nothing: the whole command, for real."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import Command
from heedful.training.checkpoint import list_checkpoints, load_checkpoint

STEPS = 120
SETTINGS = [
    "model.d_model=32", "model.d_ff=64", "model.layers=2", "model.heads=2", "model.dropout=0.1", "tokenizer.kind=char",
    "training.batch_tokens=400", "training.warmup=40", f"training.steps={STEPS}", "training.validate_every=40",
    "training.checkpoint_every=20", "training.validate_pairs=20", "training.patience=0", "training.average=3",
    "data.hold_out=40",
]  # fmt: skip


def command(pairs: tuple[Path, Path], run: Path, workers: int) -> list[str]:
    files = [f"data.source={pairs[0]}", f"data.target={pairs[1]}"]
    return ["train", "translation", *files, *SETTINGS, f"training.workers={workers}", "--run", str(run)]


def signals_as_in_a_terminal() -> None:
    """A background shell has Ctrl-C ignored, and nohup the signal of a terminal that is closed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "heedful", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=signals_as_in_a_terminal,
    )


def weights(run: Path) -> tuple[bytes, bytes]:
    return (run / "final" / "model.safetensors").read_bytes(), (run / "best" / "model.safetensors").read_bytes()


def status(pid: int) -> list[str]:
    """State, parent … of a process, according to the kernel; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def runs(pid: int) -> bool:
    return status(pid)[:1] not in ([], ["Z"])


def children(pid: int) -> list[int]:
    """The workers a process has started."""
    every = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [other for other in every if status(other)[1:2] == [str(pid)] and runs(other)]


def wait_until(condition: Callable[[], bool], seconds: float = 200.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


Reference = Callable[[int], tuple[Path, float]]


@pytest.fixture(scope="module")
def reference(pairs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, heedful: Command) -> Reference:
    """An uninterrupted run by its number of workers, and how long it took; made when first asked for."""
    made: dict[int, tuple[Path, float]] = {}

    def run(workers: int) -> tuple[Path, float]:
        if workers not in made:
            folder = tmp_path_factory.mktemp("reference") / "run"
            began = time.monotonic()
            done = heedful(*command(pairs, folder, workers))
            assert done.returncode == 0, done.stderr
            made[workers] = folder, time.monotonic() - began
        return made[workers]

    return run


def all_have_ended(pids: list[int]) -> bool:
    return not any(runs(pid) for pid in pids)


def interrupted_copy(pairs: tuple[Path, Path], run: Path) -> None:
    """Kill a one-worker run that has at least three checkpoints and is not finished."""
    process = start(command(pairs, run, 1))
    wait_until(lambda: len(list_checkpoints(run / "checkpoints")) >= 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "results.json").exists()


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_at_random_moments_the_final_weights_are_bit_identical(
    workers: int, pairs: tuple[Path, Path], reference: Reference, tmp_path: Path
) -> None:
    whole, seconds = reference(workers)
    rng = random.Random(time.time_ns())
    run, kills, continued = tmp_path / "run", 0, False
    for attempt in range(5):
        process = start(command(pairs, run, workers))
        if attempt < 3:  # anywhere, preparation included
            delay = rng.uniform(0.02, 0.6) * seconds
        elif attempt == 3:  # and once for certain after a checkpoint
            wait_until(lambda: bool(list_checkpoints(run / "checkpoints")))
            delay = rng.uniform(0.0, 0.1) * seconds
        else:
            delay = 200.0
        try:
            said, _ = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            helpers = children(process.pid)
            os.kill(process.pid, signal.SIGKILL)  # the leader alone: its workers must notice by themselves
            wait_until(partial(all_have_ended, helpers), 60)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, said
        continued = continued or "continuing from step" in said
        if "has finished" in said or attempt == 4:
            break
    assert kills >= 1
    assert continued or "has finished" in said
    assert weights(run) == weights(whole)
    steps = [entry["step"] for entry in map(json.loads, (run / "metrics.jsonl").open()) if entry["kind"] == "train"]
    assert steps == sorted(set(steps)), "a step was logged twice"


def test_ctrl_c_finishes_the_step_saves_and_says_how_to_continue(
    pairs: tuple[Path, Path], reference: Reference, heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(command(pairs, run, 2))
    wait_until(lambda: len(list_checkpoints(run / "checkpoints")) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGINT
    assert "The same command continues it" in said
    assert "rror" not in said
    assert "Traceback" not in said
    stopped = re.search(r"stopped at step (\d+)", said)
    assert stopped
    assert list_checkpoints(run / "checkpoints")[-1][0] == int(stopped[1])
    again = heedful(*command(pairs, run, 2))
    assert again.returncode == 0, again.stderr
    assert f"continuing from step {stopped[1]}" in again.stdout
    assert weights(run) == weights(reference(2)[0])


def test_damaged_checkpoints_are_named_and_passed_over(
    pairs: tuple[Path, Path], reference: Reference, heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    interrupted_copy(pairs, run)
    *_, good, flipped, cut = [path for _, path in list_checkpoints(run / "checkpoints")]
    cut.write_bytes(cut.read_bytes()[:-100])
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(bytes(content))
    again = heedful(*command(pairs, run, 1))
    assert again.returncode == 0, again.stderr
    assert f"{cut} is damaged" in again.stdout
    assert f"{flipped} is damaged: its checksum does not match" in again.stdout
    assert f"continuing from step {int(good.stem.split('-')[1])}" in again.stdout
    assert weights(run) == weights(reference(1)[0])


@pytest.mark.slow
def test_a_full_disk_ends_with_a_clear_message_and_the_last_good_checkpoint_intact(
    pairs: tuple[Path, Path], reference: Reference, heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    interrupted_copy(pairs, run)
    before = {path: path.read_bytes() for _, path in list_checkpoints(run / "checkpoints")}
    size = max(len(content) for content in before.values())

    def no_more_than_half_a_checkpoint() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    starved = heedful(*command(pairs, run, 1), preexec_fn=no_more_than_half_a_checkpoint)
    assert starved.returncode == 1
    assert "the disk is full" in starved.stderr
    assert "run the same command again to continue" in starved.stderr
    assert "Traceback" not in starved.stderr
    newest = max(before)
    assert newest.read_bytes() == before[newest]
    assert not list((run / "checkpoints").glob(".*.tmp"))
    again = heedful(*command(pairs, run, 1))
    assert again.returncode == 0, again.stderr
    assert weights(run) == weights(reference(1)[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_really_full_disk_loses_nothing(
    pairs: tuple[Path, Path], reference: Reference, heedful: Command, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2400k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        starved = heedful(*command(pairs, disk / "run", 2))
        assert starved.returncode == 1
        assert "the disk is full" in starved.stderr
        assert "Traceback" not in starved.stderr
        checkpoints = list_checkpoints(disk / "run" / "checkpoints")
        assert checkpoints, "the disk was too small to begin with"
        assert str(checkpoints[-1][1]) in starved.stderr
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        again = heedful(*command(pairs, disk / "run", 2))
        assert again.returncode == 0, again.stderr
        assert f"continuing from step {checkpoints[-1][0]}" in again.stdout
        assert weights(disk / "run") == weights(reference(2)[0])
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_killed_worker_ends_the_run_within_seconds_and_it_can_be_continued(
    pairs: tuple[Path, Path], reference: Reference, heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(command(pairs, run, 2))
    wait_until(lambda: bool(list_checkpoints(run / "checkpoints")))
    (worker,) = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "another process of this run died" in said
    assert "Traceback" not in said
    assert heedful(*command(pairs, run, 2)).returncode == 0
    assert weights(run) == weights(reference(2)[0])


def test_a_first_attempt_with_a_mistake_is_not_in_the_way(pairs: tuple[Path, Path], heedful: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    wrong = heedful(*command((tmp_path / "typo.digits", pairs[1]), run, 1))
    assert wrong.returncode == 1
    assert f"there is no file {tmp_path / 'typo.digits'}" in wrong.stderr
    process = start(command(pairs, run, 1))
    wait_until(lambda: bool(list_checkpoints(run / "checkpoints")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_a_run_continues_with_another_number_of_workers(
    first: int, then: int, pairs: tuple[Path, Path], heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(command(pairs, run, first))
    wait_until(lambda: len(list_checkpoints(run / "checkpoints")) >= 2)
    # As a cluster does before it takes the machine away, and as a terminal does when it is closed.
    number = signal.SIGTERM if first == 2 else signal.SIGHUP
    process.send_signal(number)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 128 + number
    assert "saved. The same command continues it" in said
    again = heedful(*command(pairs, run, then))
    assert again.returncode == 0, again.stderr
    assert "continuing from step" in again.stdout


def test_workers_end_in_peace(reference: Reference) -> None:
    assert (reference(2)[0] / "worker-1.log").read_text() == ""


def test_the_final_model_is_the_mean_of_the_last_checkpoints(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    """Copied before the end: a finished run deletes what it has averaged."""
    run = tmp_path / "run"
    process = start([*command(pairs, run, 1), "training.ema=0"])
    wait_until(lambda: bool(list_checkpoints(run / "checkpoints")) and list_checkpoints(run / "checkpoints")[-1][0] == STEPS)
    process.send_signal(signal.SIGSTOP)
    kept = tmp_path / "kept"
    shutil.copytree(run / "checkpoints", kept)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate()
    assert len(list_checkpoints(run / "checkpoints")) == 1
    last = list_checkpoints(kept)[-3:]  # the oldest may not have been deleted yet
    flats = [load_checkpoint(path)[0]["weights"].double() for _, path in last]
    assert len(flats) == 3
    final = load_file(run / "final" / "model.safetensors")
    if "final model: the best model" in said:  # the mean scored lower than the best model, which took its place
        best = load_file(run / "best" / "model.safetensors")
        assert all(torch.equal(final[name], best[name]) for name in best)
        return
    layout = load_checkpoint(list_checkpoints(kept)[0][1])[1]
    flat = torch.cat([final[name].flatten() for name in layout])
    assert torch.equal(flat, (sum(flats, torch.zeros(())) / 3).float())


def test_changing_the_recipe_or_the_text_under_a_run_is_refused(
    reference: Reference, pairs: tuple[Path, Path], heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(reference(1)[0], run)
    (run / "results.json").unlink()
    changed = heedful(*command(pairs, run, 1), "training.seed=7")
    assert changed.returncode == 2
    assert "training.seed was 1, is 7" in changed.stderr
    source = tmp_path / pairs[0].name
    source.write_text(pairs[0].read_text().replace("1", "2"))
    recipe = (run / "recipe.toml").read_text().replace(str(pairs[0]), str(source))
    (run / "recipe.toml").write_text(recipe)
    manifest = (run / "data" / "manifest.json").read_text().replace(str(pairs[0]), str(source))
    (run / "data" / "manifest.json").write_text(manifest)
    other = heedful(*command((source, pairs[1]), run, 1))
    assert other.returncode == 1
    assert f"{source} changed since this run began" in other.stderr


def test_a_finished_run_is_left_alone_and_a_busy_one_is_refused(
    reference: Reference, pairs: tuple[Path, Path], heedful: Command, tmp_path: Path
) -> None:
    finished, _ = reference(1)
    before = weights(finished)
    again = heedful(*command(pairs, finished, 1))
    assert again.returncode == 0
    assert "has finished" in again.stdout
    assert weights(finished) == before
    endless = [*command(pairs, tmp_path / "run", 1), "training.steps=1000000"]  # however long the second takes to start
    process = start(endless)
    wait_until(lambda: (tmp_path / "run" / "recipe.toml").exists())
    second = heedful(*endless)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert second.returncode == 1
    assert "another process is training" in second.stderr
