"""A job other than translation on the whole road: trained by command, killed and continued to the same weights, used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Command, sentences, write_examples
from heedful.runtime.run_log import read_metrics
from heedful.training.checkpoint import list_checkpoints

SETTINGS = [
    "model.d_model=32", "model.d_ff=64", "model.layers=2", "model.heads=2", "model.context=32", "model.dropout=0.1",
    "tokenizer.size=300", "training.batch_tokens=512", "training.steps=150", "training.warmup=20", "training.validate_every=40",
    "training.checkpoint_every=25", "training.log_every=10", "training.ema=0.9", "training.r_drop=0.5",
    "training.r_drop_from=0.4", "training.workers=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_examples("language-model", tmp_path_factory.mktemp("text"), 120)


def command(text: Path, run: Path) -> list[str]:
    return ["train", "language-model", f"data.train={text}", *SETTINGS, "--run", str(run)]


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory, heedful: Command) -> tuple[Path, str]:
    """A language model trained by two workers without a disturbance, and what was said."""
    run = tmp_path_factory.mktemp("whole") / "run"
    done = heedful(*command(text, run))
    assert done.returncode == 0, done.stderr
    return run, done.stdout


def weights(run: Path) -> list[bytes]:
    return [(run / name / "model.safetensors").read_bytes() for name in ("final", "best")]


@pytest.mark.slow
def test_a_killed_language_model_continues_to_bit_identical_weights(
    text: Path, whole: tuple[Path, str], heedful: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for checkpoints in (1, 2):
        process = subprocess.Popen([sys.executable, "-m", "heedful", *command(text, run)], stdout=subprocess.DEVNULL)
        end, before = time.monotonic() + 100, len(read_metrics(run / "metrics.jsonl")) if run.exists() else 0
        while len(list_checkpoints(run / "checkpoints")) < checkpoints or len(read_metrics(run / "metrics.jsonl")) <= before:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (run / "results.json").exists()
    again = heedful(*command(text, run))
    assert again.returncode == 0, again.stderr
    assert "continuing from step" in again.stdout
    assert weights(run) == weights(whole[0])
    logged = [entry["step"] for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "train"]
    assert logged == list(range(10, 151, 10))


def test_training_says_what_it_reads_how_good_it_is_and_what_to_do_next(whole: tuple[Path, str]) -> None:
    run, said = whole
    assert "tokens of " in said
    assert "characters held out for validation" in said
    assert "validation: perplexity" in said
    assert f"generate {run / 'best'} " in said.split("next")[-1]


def test_it_learned_to_write(whole: tuple[Path, str], heedful: Command, tmp_path: Path) -> None:
    run, _ = whole
    valid = [entry["perplexity"] for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "valid"]
    assert valid[-1] < 0.5 * valid[0]
    written = heedful("generate", run, "the sun is", "--beam", "1", "--length", "4").stdout
    assert written.startswith("the sun is over ")
    (tmp_path / "other.txt").write_text("\n".join(sentences(60, seed=5)) + "\n")
    scores = json.loads(heedful("evaluate", run, tmp_path / "other.txt", "--json").stdout)
    assert scores["perplexity"] < valid[0]
    assert 0 < scores["bits_per_byte"] < 8
