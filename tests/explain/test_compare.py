"""Runs side by side: of different jobs, unfinished and broken ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from conftest import Trained
from heedful.errors import HeedfulError
from heedful.explain.compare import compare


def changed(run: Path, folder: Path, **settings: str) -> Path:
    """A copy of a run whose recipe differs."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("data", "checkpoints", "tensorboard"))
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    for name, value in settings.items():
        before = next(line for line in recipe.splitlines() if line.startswith(f"{name} = "))
        recipe = recipe.replace(before, f"{name} = {value}")
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    return folder


def test_only_the_settings_that_differ_are_told(trained: Trained, tmp_path: Path) -> None:
    run = trained("translation")
    other = changed(run, tmp_path / "wide", d_ff="64", learning_rate="0.5")
    found = compare(run, other)
    assert found.settings() == {"model.d_ff": ["32", "64"], "training.learning_rate": ["0.01", "0.5"]}
    scores, settings = found.tables()
    assert list(scores.columns) == ["", "translation", "wide"]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in scores.rows}
    results = json.loads((run / "results.json").read_text())["best"]["validation"]
    assert rows["BLEU"] == [f"{results['bleu']:.2f}"] * 2
    assert rows["scored on"] == ["validation"] * 2
    assert [row[0].text for row in settings.rows] == ["model.d_ff", "training.learning_rate"]
    (alone,) = compare(run).tables()
    assert alone.title == "Scores"
    assert compare(run, changed(run, tmp_path / "same")).tables()[1].about == "All settings are equal."


def test_curves_are_those_of_the_log_and_runs_of_all_jobs_stand_side_by_side(trained: Trained) -> None:
    found = compare(*(trained(task) for task in ("translation", "classification", "language-model")))
    curves = found.curves()
    entries = [json.loads(line) for line in (trained("translation") / "metrics.jsonl").read_text().splitlines()]
    expected = [(entry["step"], entry["nll"]) for entry in entries if entry["kind"] == "train"]
    assert curves["Training loss"]["translation"] == expected
    assert set(curves["Training loss"]) == {"translation", "classification", "language-model"}
    assert set(curves["BLEU on the validation set"]) == {"translation"}
    assert found.settings()["task"] == ["translation", "classification", "language-model"]
    page = found.to_html()
    assert page.count("<svg") == len(curves)
    assert "http" not in page.replace("http://www.w3.org", "")
    row = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert [one["name"] for one in row["runs"]] == ["translation", "classification", "language-model"]


def test_a_run_that_is_not_finished_has_the_scores_of_its_best_validation(trained: Trained, tmp_path: Path) -> None:
    run = changed(trained("translation"), tmp_path / "stopped", metric='"bleu"', steps="20")
    (run / "results.json").unlink()
    entries = [
        {"kind": "train", "step": 5, "nll": 2.0, "seconds": 61.0},
        {"kind": "valid", "step": 5, "bleu": 20.0, "loss": 1.5},
        {"kind": "valid", "step": 10, "bleu": 10.0, "loss": None},
    ]
    log = "".join(json.dumps(entry) + "\n" for entry in entries) + '{"kind": "valid", "st'  # cut off by a kill
    (run / "metrics.jsonl").write_text(log)
    scores = compare(run).scores()
    assert scores["state"] == ["at step 10 of 20, no final scores"]
    assert (scores["BLEU"], scores["scored on"]) == (["20.00"], ["validation, while training"])
    assert scores["training time"] == ["1 min 01 s"]
    (run / "metrics.jsonl").write_text("")
    empty = compare(run)
    assert empty.curves() == {}
    assert "Scores" in empty.to_html()
    with pytest.raises(HeedfulError, match="no curves"):
        empty.plot()


def test_runs_that_are_called_alike_are_told_apart(trained: Trained, tmp_path: Path) -> None:
    run = trained("translation")
    other = changed(run, tmp_path / "translation")
    assert compare(run, other).names == [str(run), str(other)]


def test_what_is_no_run_or_a_broken_one_is_refused_in_words(trained: Trained, tmp_path: Path) -> None:
    run = changed(trained("translation"), tmp_path / "run")
    with pytest.raises(HeedfulError, match="there is no run directory"):
        compare(run, tmp_path / "absent")
    with pytest.raises(HeedfulError, match=r"it has no recipe\.toml; it is a model of the run"):
        compare(run / "best")
    with pytest.raises(HeedfulError, match=r"it has no recipe\.toml, which every run has"):
        compare(tmp_path)
    (run / "results.json").write_text("{}")
    with pytest.raises(HeedfulError, match=r"results\.json does not hold the results of a run"):
        compare(run)
    (run / "results.json").write_text("{")
    with pytest.raises(HeedfulError, match=r"results\.json is not JSON"):
        compare(run)
    (run / "recipe.toml").write_text("x = [")
    with pytest.raises(HeedfulError, match=r"recipe\.toml is not valid TOML"):
        compare(run)
