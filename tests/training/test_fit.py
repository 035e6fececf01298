"""A recipe that fits itself: what it chooses lands in the run, a continued run keeps it, and a dry run leaves nothing."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from test_run import StopsAt

from conftest import Run, Trained
from heedful.errors import Stopped, UsageError
from heedful.evaluation.score_names import RunResults
from heedful.plan import plan
from heedful.plan.plan import Shape, Speed
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.screen import Silence
from heedful.training import fit, shape_trial, worker_trial
from heedful.training.run import train
from heedful.training.trainer import Trainer

WORDS = {"red": "rouge", "blue": "bleu", "big": "grand", "small": "petit", "cat": "chat", "dog": "chien", "old": "vieux"}
SMALL = ["model.layers=1", "model.d_model=32", "training.workers=1", "training.batch_tokens=256"]


class Heard(Silence):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def toy_language(folder: Path, count: int = 300) -> list[str]:
    """The data section for sentences that are translated word by word."""
    rng = random.Random(1)
    rows = [rng.choices(list(WORDS), k=rng.randint(2, 6)) for _ in range(count)]
    pairs = "".join(f"{' '.join(row)}\t{' '.join(WORDS[word] for word in row)}\n" for row in rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.tsv").write_text(pairs, encoding="utf-8")
    return [f"data.source={folder / 'pairs.tsv'}"]


def weights(run: Path, name: str = "final") -> bytes:
    return (run / name / "model.safetensors").read_bytes()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials that take no time."""
    monkeypatch.setattr(fit, "SECONDS", 0.01)
    monkeypatch.setattr(worker_trial, "SECONDS", 0.01)


def slow_machine(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """Measured speeds are those of a machine that takes so many seconds for a step."""
    speed = Speed(1000.0, step, 2 * step, step / 1000, step / 500, 10**8)
    monkeypatch.setattr(worker_trial, "measure_speed", lambda *_: speed)


def test_a_short_training_of_a_toy_language_learns_every_word(tmp_path: Path, run: Run) -> None:
    data = toy_language(tmp_path, 600)
    given = ["training.steps=300", "training.workers=1", "model.layers=1", "model.d_model=64", "training.batch_tokens=256"]
    run("train", "translation", *data, *given, "--run", tmp_path / "run")
    settled = load_recipe(str(tmp_path / "run" / "recipe.toml")).training
    assert (settled.steps, settled.warmup) == (300, 30)
    out, _ = run("translate", tmp_path / "run", "old red cat small dog")
    assert out == "vieux rouge chat petit chien\n"


def test_what_is_chosen_lands_in_the_run_and_a_continued_run_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    recipe = load_recipe("translation", [*toy_language(tmp_path), *SMALL])
    slow_machine(monkeypatch, 0.5)
    train(recipe, tmp_path / "whole", Silence(), seconds=30)
    planned = load_recipe(str(tmp_path / "whole" / "recipe.toml"))
    assert not planned.open
    assert 10 < planned.training.steps < 60

    run, heard = tmp_path / "run", Heard()
    with pytest.raises(Stopped):
        train(recipe, run, StopsAt(5, 15), seconds=30)
    before = (run / "recipe.toml").read_text(encoding="utf-8")
    slow_machine(monkeypatch, 0.0001)  # now it is fast, which changes nothing any more
    train(recipe, run, heard, seconds=30)
    assert (run / "recipe.toml").read_text(encoding="utf-8") == before
    assert any("goes on with the plan it began with" in line for line in heard.lines)
    assert not any(line.startswith("plan:") for line in heard.lines)
    if load_recipe(str(run / "recipe.toml")) == planned:  # the time left differs by milliseconds
        assert weights(run) == weights(tmp_path / "whole")
    with pytest.raises(UsageError, match=r"was begun with another recipe: training\.batch_tokens was 256"):
        train(load_recipe("translation", [*toy_language(tmp_path), *SMALL[:3], "training.batch_tokens=300"]), run, Silence())


def test_a_plan_says_what_it_chose_and_how_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    slow_machine(monkeypatch, 0.5)
    heard = Heard()
    recipe = load_recipe("translation", [*toy_language(tmp_path), *SMALL])
    train(recipe, tmp_path / "run", heard, seconds=20)
    (summary, estimate) = [line for line in heard.lines if line.startswith("plan:")]
    assert re.match(r"plan: 300 pairs: [\d,]+ subwords, 1 \+ 1 layers of 32, dropout 0\.\d+, \d+ steps", summary)
    assert "given" in estimate


def test_a_dry_run_shows_every_choice_and_leaves_nothing(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    slow_machine(monkeypatch, 0.1)
    out, _ = run("train", "translation", *toy_language(tmp_path / "data"), *SMALL, "--time", "2m", "--dry-run")
    for said in ("training.steps=", "tokenizer.size=", "model.dropout=", "time    about 1 min", "memory  about 100 MB", "disk "):
        assert said in out
    assert "model.layers=" not in out, "it was given"
    assert {path.name for path in tmp_path.iterdir()} == {"temporary", "data", "stdin"}
    assert not list((tmp_path / "temporary").iterdir())


def test_a_time_needs_steps_that_are_left_open(tmp_path: Path, run: Run) -> None:
    data = toy_language(tmp_path)
    for recipe, given in (("multi30k", []), ("translation", ["training.steps=5"])):
        _, err = run("train", recipe, *data, *given, "--time", "1h", "--run", tmp_path / "run", code=2)
        assert "--time decides training.steps" in err
    assert "--time must be a time such as 30m" in run("train", "translation", *data, "--time", "soon", code=2)[1]
    assert not (tmp_path / "run").exists()


def test_the_final_model_is_never_worse_than_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Trainer.settle

    def spoiled(self: Trainer) -> str:
        words = settle(self)
        for weight in self.judged_model.parameters():
            weight.data.zero_()
        return words

    monkeypatch.setattr(Trainer, "settle", spoiled)
    recipe: Recipe = load_recipe("translation", [*toy_language(tmp_path), *SMALL, "training.steps=60"])
    heard = Heard()
    results: RunResults = train(recipe, tmp_path / "run", heard)
    assert weights(tmp_path / "run", "final") == weights(tmp_path / "run", "best")
    final: Any = results["final"]
    assert final == results["best"]
    assert any(line.startswith("final model: the best model, of step") for line in heard.lines)


def test_a_plan_for_a_model_that_is_continued_tells_its_own_size(trained: Trained, tmp_path: Path) -> None:
    start = load_recipe(str(trained("translation") / "recipe.toml"))
    files = [f"data.{side}={getattr(start.data, side)}" for side in ("source", "target")]
    given = [f"model.pretrained={trained('translation')}", "training.steps=2", "training.workers=1"]
    heard = Heard()
    train(load_recipe("translation", [*files, *given]), tmp_path / "run", heard)
    (summary,) = [line for line in heard.lines if line.startswith("plan:")]
    layers, width = start.model["layers"], start.model["d_model"]
    assert f"subwords, {layers} + {layers} layers of {width}, dropout" in summary


def test_other_kinds_of_models_are_fitted_with_adam(tmp_path: Path) -> None:
    given = ["model.kind=recurrent", "model.d_model=16", "training.steps=4", "training.workers=1"]
    train(load_recipe("translation", [*toy_language(tmp_path), *given]), tmp_path / "run", Silence())
    settled = load_recipe(str(tmp_path / "run" / "recipe.toml"))
    assert (settled.training.optimizer, settled.training.warmup, settled.model["layers"]) == ("adam", 1, 1)


def test_the_time_decides_how_large_a_model_is_where_there_are_many_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    shapes = (Shape(100, 1, 16, 16, 2), Shape(10**12, 1, 32, 32, 2))
    for module in (plan, shape_trial):
        monkeypatch.setattr(module, "SHAPES", shapes)
    monkeypatch.setattr(shape_trial, "SECONDS", 0.01)
    recipe = load_recipe("translation", toy_language(tmp_path))
    for seconds, largest in ((0.001, shapes[0]), (10_000.0, shapes[1])):
        heard, chosen = Heard(), fit.Fit(recipe, seconds)
        chosen.look_at_machine(heard)
        assert chosen.largest == largest
        assert chosen.filled(chosen.plan()).model["d_model"] == largest.width
        assert heard.lines[0].startswith("trial: 1 + 1 layers of 16: about ")
    for given in ("model.layers=1", "model.preset=base"):
        assert not shape_trial.needs_trial(load_recipe("translation", [*toy_language(tmp_path), given]), chosen.data)


def test_a_table_without_pairs_is_named_with_what_it_has(tmp_path: Path, run: Run) -> None:
    (tmp_path / "pairs.csv").write_text('"a cat","eine Katze"\n' * 20, encoding="utf-8")
    _, err = run("train", "translation", f"data.source={tmp_path / 'pairs.csv'}", "--dry-run", code=1)
    assert "no usable pair in" in err
    assert "a table needs a tab between a source and its target" in err
