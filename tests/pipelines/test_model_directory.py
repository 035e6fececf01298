"""A model directory of any job: read back as it was written, the same in any company, and refused where it does not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from conftest import TASKS as JOBS
from conftest import Trained
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.registry import JOBS as ALL_JOBS
from heedful.pipelines import load_pipeline
from heedful.pipelines.embedder import Embedder
from heedful.pipelines.pipeline import by_budget, find_directory
from heedful.recipes import load_recipe


def held_out(task: str, run: Path) -> list[Any]:
    """The validation examples of a run."""
    return list(ALL_JOBS[task].task_class(load_recipe(str(run / "recipe.toml")), run / "data").valid)


def close(one: Any, other: Any) -> bool:
    """Whether two predictions are the same but for the last digits of their numbers."""
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == pytest.approx(other, rel=1e-3, abs=1e-4)) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize("task", JOBS)
def test_a_saved_model_says_the_same(task: str, trained: Trained, tmp_path: Path) -> None:
    run = trained(task)
    pipeline, examples = load_pipeline(run), held_out(task, run)
    said = pipeline.predict(examples)
    pipeline.save(tmp_path / "again")
    again = load_pipeline(tmp_path / "again")
    assert type(again) is type(pipeline) is ALL_JOBS[task].pipeline_class
    assert again.predict(examples) == said
    assert again.settings == pipeline.settings
    assert again.model.config == pipeline.model.config
    assert again.card == pipeline.card != ""
    assert not again.model.training
    assert {path.name for path in (tmp_path / "again").iterdir()} == {path.name for path in (run / "best").glob("[!.]*")}
    assert json.loads((tmp_path / "again" / "config.json").read_text())["task"] == task


@pytest.mark.parametrize("task", JOBS)
def test_what_stands_beside_an_example_never_changes_what_is_said_of_it(task: str, trained: Trained) -> None:
    pipeline, examples = load_pipeline(trained(task)), held_out(task, trained(task))
    together = pipeline.predict(examples)
    assert len(together) == len(examples) >= 3
    for example, said in list(zip(examples, together, strict=True))[:6]:
        assert close(pipeline.predict([example])[0], said)
    assert all(map(close, pipeline.predict(examples[::-1]), together[::-1]))


@pytest.mark.parametrize("task", JOBS)
def test_nothing_in_nothing_out(task: str, trained: Trained) -> None:
    assert load_pipeline(trained(task)).predict([]) == []


@pytest.mark.parametrize("task", JOBS)
def test_the_scores_in_the_card_are_those_of_the_saved_model(task: str, trained: Trained) -> None:
    run = trained(task)
    pipeline, examples = load_pipeline(run), held_out(task, run)
    scores = pipeline.scores(examples, pipeline.predict(examples))
    told = json.loads((run / "results.json").read_text())["best"]["validation"]
    assert {key: value for key, value in scores.items() if isinstance(value, float)} == pytest.approx(
        {key: value for key, value in told.items() if isinstance(value, float)}, rel=1e-3, abs=1e-3
    )
    assert f"| task | {task} |" in pipeline.card
    metric = load_recipe(str(run / "recipe.toml")).training.metric
    assert metric in scores
    more = {"image-classification": {"image"}, "question-answering": {"passage"}}
    parts = {"input", "output", "reference"} | more.get(task, set())
    assert all(sample.keys() == parts for sample in pipeline.samples(examples, pipeline.predict(examples)))


def test_a_run_stands_for_its_best_model(trained: Trained) -> None:
    run = trained("classification")
    assert find_directory(run) == run / "best"
    assert find_directory(run / "final") == run / "final"
    assert heedful.load(run).card == heedful.load(str(run / "best")).card


@pytest.mark.parametrize("task", JOBS)
def test_a_class_loads_no_model_of_another_job(task: str, trained: Trained) -> None:
    other = JOBS[(JOBS.index(task) + 1) % len(JOBS)]
    with pytest.raises(HeedfulError) as caught:
        ALL_JOBS[other].pipeline_class.load(trained(task))
    assert str(caught.value) == f"{trained(task) / 'best'} is {ALL_JOBS[task].what}, not {ALL_JOBS[other].what}"


def test_a_hugging_face_directory_is_told_how_it_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    with pytest.raises(HeedfulError) as caught:
        load_pipeline(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a Hugging Face model; `heedful import {tmp_path} OUT` converts it"


@pytest.mark.parametrize(("key", "value"), [("task", "chess"), ("kind", "mamba"), ("task", None)])
def test_a_task_or_kind_unknown_here_is_named(key: str, value: str | None, trained: Trained, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained("tagging") / "best", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(HeedfulError, match=f"names the task .*'{value}'.*which this version does not have"):
        load_pipeline(folder)


@pytest.mark.parametrize("change", [{"settings": {"labls": []}}, {"model": {"layers": 1}}, {"model": {"vocab": 9, "depth": 1}}])
def test_a_config_that_describes_no_model_is_named(change: dict[str, Any], trained: Trained, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained("tagging") / "best", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(HeedfulError, match=r"config\.json does not describe a model"):
        load_pipeline(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(name: str, trained: Trained, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained("tagging") / "best", tmp_path / "model"))
    (folder / name).unlink()
    with pytest.raises(HeedfulError, match=name):
        load_pipeline(folder)


def test_one_text_gives_one_answer_and_a_list_gives_a_list(trained: Trained) -> None:
    for call in (
        load_pipeline(trained("translation")).translate,
        load_pipeline(trained("classification")).classify,
        load_pipeline(trained("language-model")).generate,
        load_pipeline(trained("summarization")).summarize,
        load_pipeline(trained("tagging")).tag,
        load_pipeline(trained("bert-pretraining")).fill,
        Embedder.of(load_pipeline(trained("tagging"))).embed,
    ):
        text = "the [MASK] is over 7"
        assert np.array_equal(np.array(call(text), dtype=object), np.array(call([text])[0], dtype=object))


def test_batches_keep_to_their_budget_and_lose_nothing() -> None:
    widths = np.random.default_rng(0).integers(1, 50, 200).tolist()
    order = sorted(range(200), key=lambda i: widths[i])
    batches = by_budget(order, widths, 120)
    assert [i for batch in batches for i in batch] == order
    assert all(len(batch) == 1 or max(widths[i] for i in batch) * len(batch) <= 120 for batch in batches)
    assert len(batches) < 100
    assert by_budget([0], [1000], 10) == [[0]]
    assert by_budget([], [], 10) == []


def test_load_takes_the_job_that_is_named_and_no_other(trained: Trained) -> None:
    import heedful

    assert heedful.load(trained("tagging"), job="tagging").tag("on 7 May")
    with pytest.raises(HeedfulError, match="is a tagger, not a translation model"):
        heedful.load(trained("tagging"), job="translation")
    with pytest.raises(UsageError, match="there is no job 'tag'; did you mean 'tagging'"):
        heedful.load(trained("tagging"), job="tag")  # type: ignore[call-overload]  # not a job
