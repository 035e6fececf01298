"""A run that is stopped: everything is saved, a model can be made of it, and it continues to the same weights."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from conftest import Run, Trained, small_recipe
from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.nn.fast import pieces
from heedful.nn.fast.linear import CHOICE, choose_library, chosen_library, onednn_is_faster
from heedful.pipelines import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.files import write_text
from heedful.runtime.screen import Silence
from heedful.training.run import finish, train


class StopsAt(Silence):
    """Sends this process a signal when training reaches a step."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__()
        self.step, self.number = step, number

    def at_step(self, step: int, steps: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), self.number)


def recipe_of(folder: Path, *overrides: str) -> Recipe:
    return small_recipe("classification", folder, "training.validate_every=6", "training.checkpoint_every=2", *overrides)


@pytest.mark.parametrize(
    ("number", "model"),
    [
        (signal.SIGHUP, []),
        (signal.SIGTERM, ["attention_kind=longformer", "window=1", "attention_dropout=0.1"]),
        (signal.SIGINT, ["attention_kind=reformer", "hash_chunk=2", "attention_dropout=0.1"]),
    ],
)
def test_a_stopped_run_is_saved_finished_and_continued_to_the_same_weights(
    number: int, model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # nohup and background shells have some of them ignored
    request.addfinalizer(lambda: signal.signal(number, before))
    monkeypatch.setattr(pieces, "PIECE_SCORES", 100)  # short texts are several pieces, too
    recipe = recipe_of(tmp_path, *(f"model.{setting}" for setting in model))
    train(recipe, tmp_path / "whole", Silence())
    run = tmp_path / "run"
    with pytest.raises(
        Stopped, match=r"stopped at step 4 of 6, saved\. The same command continues it; `heedful finish"
    ) as stopped:
        train(recipe, run, StopsAt(3, number))
    assert stopped.value.signal == number
    assert not (run / "best").exists(), "it was stopped before the first validation"
    assert not (run / ".lock").exists()

    results = finish(run, Silence())
    assert results["unfinished"] == "stopped at step 4 of 6"
    assert load_pipeline(run).classify("the sun")
    assert "stopped at step 4 of 6" in (run / "report.html").read_text(encoding="utf-8")

    assert "unfinished" not in train(recipe, run, Silence())
    for name in ("best", "final"):
        ours, whole = ((folder / name / "model.safetensors").read_bytes() for folder in (run, tmp_path / "whole"))
        assert ours == whole
    assert len(list((run / "checkpoints").glob("*.safetensors"))) == 1, "a finished run keeps one checkpoint"


def test_finishing_what_is_no_run_says_why(tmp_path: Path, run: Run) -> None:
    with pytest.raises(UsageError, match=r"is not a run: it has no recipe\.toml"):
        finish(tmp_path, Silence())
    write_text(tmp_path / "recipe.toml", recipe_of(tmp_path / "data").to_toml())
    with pytest.raises(HeedfulError, match="has no prepared data"):
        finish(tmp_path, Silence())
    assert "has no prepared data" in run("finish", tmp_path, code=1)[1]


def test_finish_shows_the_scores_of_a_finished_run(trained: Trained, run: Run) -> None:
    out, _ = run("finish", trained("classification"))
    assert "best  validation  accuracy" in out
    assert f"heedful classify {trained('classification') / 'best'}" in out


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    Path(recipe.data.train).write_text("no label here\n" * 9)
    with pytest.raises(HeedfulError, match="no usable labelled text"):
        train(recipe, tmp_path / "runs" / "run", Silence())
    assert not (tmp_path / "runs" / "run").exists()


def test_the_scores_at_the_end_say_how_they_differ_from_the_validations(tmp_path: Path, run: Run) -> None:
    recipe = small_recipe("translation", tmp_path, "training.validate_pairs=5", "decoding.beam=3", "training.steps=4")
    write_text(tmp_path / "recipe.toml", recipe.to_toml())
    out, _ = run("train", tmp_path / "recipe.toml", "--run", tmp_path / "run")
    assert re.search(r"validation \(greedy\): BLEU", out)
    assert "scored with beam 3; validation during training was greedy" in out
    assert "; validation during training used 5" in out


def test_what_a_preset_brings_to_training_is_shown(tmp_path: Path, run: Run) -> None:
    absent = [f"data.{side}={tmp_path / 'absent'}" for side in ("source", "target")]
    _, err = run("train", "translation", "model.preset=a-heads-1", *absent, "--run", tmp_path / "run", code=1)
    assert "model.preset=a-heads-1 also sets training.steps=100000" in err
    _, err = run("--quiet", "train", "translation", "model.preset=a-heads-1", *absent, "--run", tmp_path / "run", code=1)
    assert "also sets" not in err


def test_another_tokenizer_of_a_pretrained_model_is_noticed(trained: Trained, tmp_path: Path) -> None:
    import shutil

    start = Path(shutil.copytree(trained("translation") / "best", tmp_path / "start"))
    data = load_recipe(str(trained("translation") / "recipe.toml")).data
    files = [f"data.source={data.source}", f"data.target={data.target}", f"model.pretrained={start}"]
    quick = ["training.steps=2", "training.workers=1", "training.validate_pairs=2", "training.batch_tokens=300"]
    recipe = load_recipe("translation", [*files, *quick])
    train(recipe, tmp_path / "run", Silence())
    (tmp_path / "run" / "results.json").unlink()
    path = start / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("{", "{ ", 1), encoding="utf-8")
    with pytest.raises(HeedfulError, match=r"tokenizer\.json changed since this run began"):
        train(recipe, tmp_path / "run", Silence())


def test_a_pipeline_that_fails_leaves_the_model_in_training(trained: Trained) -> None:
    pipeline = load_pipeline(trained("translation"))
    pipeline.model.train()
    with pytest.raises(HeedfulError, match="too long"):
        pipeline.translate(["1 " * 9000])
    with pipeline.working():
        assert not pipeline.model.training
    assert pipeline.model.training


def test_shell_completion_can_be_installed_and_help_tells_which_way_temperature_goes(run: Run) -> None:
    assert "--install-completion" in run("--help")[0]
    assert "below 1 is more cautious" in re.sub(r"[│\s]+", " ", run("translate", "--help")[0])


def test_a_continued_run_computes_with_the_library_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "mkl")
    choose_library("mkl")
    with pytest.raises(Stopped):
        train(recipe_of(tmp_path), tmp_path / "run", StopsAt(3, signal.SIGTERM))
    choose_library("onednn")  # as if it had been measured to be faster this time
    train(recipe_of(tmp_path), tmp_path / "run", Silence())
    assert chosen_library() == "mkl"
    onednn_is_faster.cache_clear()
