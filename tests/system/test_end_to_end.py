"""Two aligned files in, a working translator out: the whole road as a user walks it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import heedful as package
from conftest import Command, write_pairs
from heedful.data.batches import Position
from heedful.data.collation import Batch
from heedful.errors import HeedfulError
from heedful.models.seq2seq import Seq2Seq
from heedful.recipes import load_recipe
from heedful.runtime.processes import Processes
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Silence
from heedful.tasks.translation import TranslationTask
from heedful.training.flat_weights import FlatWeights
from heedful.training.optimizer_step import MOST_SKIPPED
from heedful.training.run import train
from heedful.training.step_window import StepWindow
from heedful.training.trainer import Trainer

SMALL = [
    "model.d_model=64", "model.d_ff=128", "model.layers=2", "model.heads=4", "model.dropout=0.0", "tokenizer.kind=wordpiece",
    "training.batch_tokens=1000", "training.warmup=100", "training.learning_rate=0.005", "training.steps=250",
    "training.validate_every=50", "training.checkpoint_every=50", "data.hold_out=100", "training.average=2",
    "training.patience=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, heedful: Command) -> Path:
    """A run on digits → words backwards, trained with the documented command."""
    folder = tmp_path_factory.mktemp("own")
    source, target = write_pairs(folder, 4000)
    files = [f"data.source={source.name}", f"data.target={target.name}"]
    done = heedful("train", "translation", *files, *SMALL, "--run", "runs/own", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    assert re.search(r"step 50/250  loss \d+\.\d+  [\d,]+ tokens/s  (\d+ min )?\d+ s left", done.stdout)
    assert "held out for validation" in done.stdout
    return folder / "runs" / "own"


def test_a_run_directory_holds_all_it_should(trained: Path) -> None:
    expected = {"recipe.toml", "metrics.jsonl", "tensorboard", "checkpoints", "best", "final", "report.html", "results.json"}
    assert expected <= {path.name for path in trained.iterdir()}
    for model in ("best", "final"):
        files = {path.name for path in (trained / model).iterdir()}
        assert files == {"config.json", "model.safetensors", "tokenizer.json", "README.md"}
    kinds = {entry["kind"] for entry in read_metrics(trained / "metrics.jsonl")}
    assert kinds == {"train", "valid"}
    first = read_metrics(trained / "metrics.jsonl")[0]
    assert 0.0 <= first["waiting_for_data"] < 0.5
    validation = next(e for e in read_metrics(trained / "metrics.jsonl") if e["kind"] == "valid")
    assert validation["samples"][0].keys() == {"input", "reference", "output"}


def test_tensorboard_reads_the_curves(trained: Path) -> None:
    events = EventAccumulator(str(trained / "tensorboard"))
    events.Reload()
    steps = [event.step for event in events.Scalars("valid/bleu")]
    assert steps == [50, 100, 150, 200, 250]


def test_the_trained_model_translates_what_it_has_never_seen(trained: Path, heedful: Command) -> None:
    translator = package.load(str(trained / "best"))
    assert translator.translate(["1 2 3", "", "9 0 9 8"], beam=4) == ["three two one", "", "eight nine zero nine"]
    assert translator.translate("1 2 3") == "three two one"
    said = heedful("translate", trained / "final", "4 5 6")
    assert said.stdout == "six five four\n"


def test_evaluate_gives_the_scores_of_the_card_and_for_machines(trained: Path, heedful: Command, tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, 200, seed=99)
    told = heedful("evaluate", trained / "best", "--source", source, "--reference", target, "--json")
    scores = json.loads(told.stdout)
    assert scores["exact"] > 90
    assert scores["bleu"] > 90
    assert scores["bleu_signature"].startswith("nrefs:1|case:mixed")
    assert scores["perplexity"] < 1.5
    card = heedful("info", trained / "best").stdout
    results = json.loads((trained / "results.json").read_text())
    assert f"{results['best']['validation']['bleu']:.2f}" in card


def test_the_report_shows_every_curve_and_every_head(trained: Path) -> None:
    page = (trained / "report.html").read_text(encoding="utf-8")
    found = json.loads(page.split('id="explanation">')[1].split("</script>")[0])
    shapes = {one["name"]: (len(one["layers"]), one["layers"][0]["weights"]["shape"][0]) for one in found["attention"]}
    assert shapes == dict.fromkeys(("cross", "encoder", "decoder"), (2, 4))
    assert page.count("<polyline") == 6  # loss twice, three scores, speed


def first_losses(recipe_overrides: list[str], run: Path, heedful: Command, launcher: list[str] | None = None) -> list[float]:
    short = ["training.steps=20", "training.learning_rate=0.001", "training.log_every=1", "--run", str(run)]
    arguments = ["train", "translation", *SMALL, *recipe_overrides, *short]
    if launcher is None:
        done = heedful(*arguments)
    else:
        done = subprocess.run([*launcher, "-m", "--", "heedful", *arguments], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [entry["loss"] for entry in read_metrics(run / "metrics.jsonl") if entry["kind"] == "train"]


def test_one_worker_two_workers_and_torchrun_give_the_same_loss_curve(
    pairs: tuple[Path, Path], heedful: Command, tmp_path: Path
) -> None:
    files = [f"data.source={pairs[0]}", f"data.target={pairs[1]}"]
    one = first_losses([*files, "training.workers=1"], tmp_path / "one", heedful)
    two = first_losses([*files, "training.workers=2"], tmp_path / "two", heedful)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = first_losses(files, tmp_path / "torchrun", heedful, torchrun)
    assert len(one) == len(two) == len(run) == 20
    assert two == pytest.approx(one, rel=1e-4)
    assert run == pytest.approx(one, rel=1e-4)


def trainer_of(pairs: tuple[Path, Path], folder: Path, *overrides: str) -> tuple[Trainer, TranslationTask]:
    files = [f"data.source={pairs[0]}", f"data.target={pairs[1]}"]
    recipe = load_recipe("translation", [*files, *SMALL, "training.steps=40", *overrides])
    TranslationTask.prepare(recipe, folder / "data", Silence())
    task = TranslationTask(recipe, folder / "data")
    return Trainer(task, recipe, folder, Processes(), Silence()), task


def test_a_loss_that_is_not_finite_is_skipped_and_counted(
    pairs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, task = trainer_of(pairs, tmp_path)
    usual, calls = task.loss, 0

    def poisoned(model: Seq2Seq, batch: Batch, r_drop: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, int]:
        nonlocal calls
        calls += 1
        loss, nll, tokens = usual(model, batch, r_drop)
        return (loss * float("nan") if calls in (5, 9) else loss), nll, tokens

    monkeypatch.setattr(task, "loss", poisoned)
    assert trainer.train(None, lambda scores: None)
    assert trainer.progress.skipped == 2
    assert trainer.progress.step == 40
    assert all(bool(torch.isfinite(p).all()) for p in trainer.model.parameters())


def test_a_loss_that_stays_not_finite_stops_with_advice(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    overrides = ["training.learning_rate=100", "training.clip=0", "training.warmup=1", "training.schedule=constant"]
    trainer, _ = trainer_of(pairs, tmp_path, *overrides, f"training.steps={MOST_SKIPPED * 3}")
    with pytest.raises(HeedfulError, match=r"lower training\.learning_rate"):
        trainer.train(None, lambda scores: None)


def test_accumulated_batches_equal_one_large_batch(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    """Gradients are weighted by tokens, so how pairs are cut into batches does not matter."""
    trainer, task = trainer_of(pairs, tmp_path)
    model = trainer.model.eval()
    assert isinstance(trainer.weights, FlatWeights)
    stream = task.batches(Position(), 0, 1)
    halves = [batch for _, batch in (next(stream), next(stream)) if batch is not None]
    total = sum(task.loss(model, batch)[2] for batch in halves)
    trainer.weights.clear()
    for batch in halves:
        task.loss(model, batch)[0].backward()
    accumulated = trainer.weights.gradient / total
    trainer.weights.clear()
    for batch in halves:
        for row in range(len(batch.source)):
            single = Batch(*(getattr(batch, name)[row : row + 1] for name in Batch.__dataclass_fields__))
            task.loss(model, single)[0].backward()
    torch.testing.assert_close(trainer.weights.gradient / total, accumulated, atol=1e-5, rtol=1e-4)


def test_a_batch_learned_in_pieces_gives_the_same_gradient(
    pairs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, positions in enumerate((10**6, 30)):
        monkeypatch.setattr("heedful.training.optimizer_step.PIECE", positions)
        monkeypatch.setattr("heedful.training.optimizer_step.PIECE_NUMBERS", 0)  # however narrow the model is
        trainer, task = trainer_of(pairs, tmp_path / str(number))
        usual = task.loss
        sizes: list[int] = []

        def counted(model: Seq2Seq, batch: Batch, usual: Any = usual, sizes: list[int] = sizes) -> Any:
            sizes.append(batch.source.numel())
            return usual(model, batch)

        monkeypatch.setattr(task, "loss", counted)
        trainer.step(task.batches(Position(), 0, 1), StepWindow(trainer.progress))
        assert isinstance(trainer.weights, FlatWeights)
        found.append((sizes, trainer.progress.tokens, trainer.weights.gradient))
    (whole, tokens, gradient), (pieces, same_tokens, same_gradient) = found
    assert len(whole) == 1
    assert sum(pieces) == whole[0] > max(pieces)
    assert tokens == same_tokens
    torch.testing.assert_close(same_gradient, gradient, atol=1e-6, rtol=1e-4)


def test_the_loop_with_accumulation_takes_several_batches_a_step(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    once, _ = trainer_of(pairs, tmp_path / "a", "training.steps=10")
    twice, _ = trainer_of(pairs, tmp_path / "b", "training.steps=5", "training.accumulate=2")
    for trainer in (once, twice):
        assert trainer.train(None, lambda scores: None)
    assert (once.progress.epoch, once.progress.batch) == (twice.progress.epoch, twice.progress.batch)
    assert once.progress.tokens == twice.progress.tokens


def test_r_drop_begins_when_it_is_told(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    """Until then every step is that of a run without it, and from then on none."""
    usual = ["training.steps=10", "model.dropout=0.3"]
    extra = {
        "without": ["training.r_drop=0"],
        "half": ["training.r_drop=1", "training.r_drop_from=0.5"],
        "whole": ["training.r_drop=1", "training.r_drop_from=0"],
    }
    losses: dict[str, list[float]] = {}
    for name, more in extra.items():
        trainer, task = trainer_of(pairs, tmp_path / name, *usual, *more)
        data, losses[name] = task.batches(Position(), 0, 1), []
        for _ in range(10):
            trainer.step(data, window := StepWindow(trainer.progress))
            losses[name].append(window.loss)
    assert losses["half"][:5] == losses["without"][:5]
    assert not set(losses["half"][5:]) & set(losses["without"][5:])
    assert not set(losses["whole"]) & set(losses["without"])


def test_bf16_learns_too(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    trainer, task = trainer_of(pairs, tmp_path, "training.precision=bf16", "training.steps=30")
    before = task.validate(trainer.model, Processes())["loss"]
    assert trainer.train(None, lambda scores: None)
    assert task.validate(trainer.model, Processes())["loss"] < 0.9 * before


def test_bf16_continues_exactly(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    wide = ["training.precision=bf16", "training.optimizer=muon", "training.steps=20", "model.dropout=0.1"]
    courses = []
    for name, broken in (("whole", False), ("broken", True)):
        trainer, task = trainer_of(pairs, tmp_path / name, *wide)
        data = task.batches(Position(), 0, 1)
        for step in range(20):
            if broken and step == 7:
                trainer.save()
                trainer, task = trainer_of(pairs, tmp_path / name, *wide)
                assert trainer.resume()
                data = task.batches(Position(trainer.progress.epoch, trainer.progress.batch), 0, 1)
            trainer.step(data, StepWindow(trainer.progress))
        assert isinstance(trainer.weights, FlatWeights)
        courses.append(trainer.weights.state["weights"].clone())
    assert torch.equal(*courses)


def test_early_stopping_ends_a_run_that_gets_no_better(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    files = [f"data.source={pairs[0]}", f"data.target={pairs[1]}"]
    stuck = ["training.learning_rate=1e-9", "training.patience=2", "training.validate_every=10", "training.checkpoint_every=10"]
    recipe = load_recipe("translation", [*files, *SMALL, *stuck, "training.workers=1", "training.steps=1000"])
    results = train(recipe, tmp_path / "run", Silence())
    assert results["steps"] == 30
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()
