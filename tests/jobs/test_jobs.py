"""The recipes of all jobs: their models, their data and their metrics, and what one job refuses of another."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from heedful.errors import UsageError
from heedful.jobs.registry import TRAINABLE as JOBS
from heedful.models import MODEL_KINDS, config_class
from heedful.models.presets import PRESETS
from heedful.recipes import Recipe, load_recipe, model_settings, resolve
from heedful.recipes.recipe import FILES
from heedful.settings import Json

OF_JOB = [(task, preset) for task, job in JOBS.items() for preset in PRESETS if PRESETS[preset].kind in job.kinds]


def usage_error(name: str, *overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_recipe(name, overrides)
    return str(caught.value)


def written_and_read(recipe: Recipe, folder: Path, *overrides: str) -> Recipe:
    (folder / "written.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return load_recipe(str(folder / "written.toml"), overrides)


@pytest.mark.parametrize("task", JOBS)
def test_a_job_s_own_default_is_complete(task: str) -> None:
    job, recipe = JOBS[task], resolve({"task": task})
    assert recipe.model["kind"] == job.kinds[0]
    assert recipe.model["preset"] == job.preset
    assert recipe.data == job.data()
    assert recipe.training.metric == job.metrics[0]
    assert PRESETS[job.preset].kind == job.kinds[0]


@pytest.mark.parametrize("task", JOBS)
def test_what_the_data_decides_is_no_setting(task: str) -> None:
    for key in JOBS[task].fixed:
        assert f"there is no setting 'model.{key}'" in usage_error(task, f"model.{key}=3")


@pytest.mark.parametrize(("task", "preset"), OF_JOB)
def test_every_preset_of_a_job_s_models_reads_back_the_same(task: str, preset: str, tmp_path: Path) -> None:
    sized = {"image-classification": ["data.size=224", "data.channels=3", "data.generate="]}.get(task, [])
    recipe = load_recipe(task, [f"model.preset={preset}", *sized])
    assert (recipe.model["preset"], recipe.model["kind"]) == (preset, PRESETS[preset].kind)
    shape = {key: value for key, value in PRESETS[preset].model.items() if key not in JOBS[task].fixed}
    assert model_settings(recipe).items() >= shape.items()
    assert written_and_read(recipe, tmp_path) == recipe


def test_every_kind_of_model_has_a_job_and_a_preset() -> None:
    assert {kind for job in JOBS.values() for kind in job.kinds} == set(MODEL_KINDS)
    assert {preset.kind for preset in PRESETS.values()} == set(MODEL_KINDS)


@pytest.mark.parametrize(
    ("task", "overrides", "fault"),
    [
        ("translation", ["model.kind=gpt"], "model.kind must be seq2seq or recurrent for translation, not 'gpt'"),
        ("tagging", ["model.kind=brt"], "model.kind must be bert for tagging, not 'brt'"),
        ("language-model", ["model.preset=base"], "model.kind must be gpt for language-model, not 'seq2seq'"),
        ("translation", ["model.kind=recurrent", "model.preset=big"], "preset 'big' is of the kind seq2seq, not recurrent"),
        ("classification", ["model.preset=bert-tny"], "there is no preset 'bert-tny'; did you mean 'bert-tiny'?"),
        ("classification", ["model.decoder_layers=2"], "there is no setting 'model.decoder_layers'"),
        ("translation", ["model.cell=lstm"], "there is no setting 'model.cell'"),
        ("classification", ["data.source=x"], "there is no setting 'data.source'"),
        ("classification", ["data.stride=2"], "there is no setting 'data.stride'"),
        ("classification", ["training.metric=bleu"], "training.metric must be one of accuracy, macro_f1, loss, not 'bleu'"),
        ("summarization", ["training.metric=rouge"], "training.metric must be one of rougeL, rouge1, rouge2, loss"),
        ("classification", ["data.generate=dates"], "data.generate must be one of languages, long-recall, listops, not 'dates'"),
        ("bert-pretraining", ["data.masked=1"], "data.masked must be at least 0 and below 1, not 1.0"),
        ("tagging", ["data.split=letters"], "data.split must be one of spaces, words, not 'letters'"),
        ("tagging", ["model.heads=3"], "d_model 128 is not divisible by heads 3"),
        ("tagging", ["model.pooling=mean"], "head=token leaves no choice of pooling"),
        ("question-answering", ["data.max_length=7"], "data.max_length must be at least 8, not 7"),
        ("question-answering", ["data.stride=-1"], "data.stride must be at least 0, not -1"),
        ("question-answering", ["data.max_answer=0"], "data.max_answer must be at least 1, not 0"),
        ("image-classification", ["data.channels=2"], "data.channels must be one of 1, 3, not '2'"),
        ("image-classification", ["data.size=9"], "image_size 9 is not a multiple of patch 2"),
        ("image-classification", ["data.mixup=-1"], "data.mixup must be at least 0, not -1.0"),
        ("language-model", ["data.hold_out=-0.1"], "data.hold_out must be at least 0"),
        ("language-model", ["data.hold_out=1"], "data.hold_out must be at least 0 and below 1, not 1.0"),
        ("language-model", ["model.context=0"], "context must be at least 1, not 0"),
    ],
)
def test_what_a_job_cannot_do_is_named_before_any_work(task: str, overrides: list[str], fault: str) -> None:
    assert fault in usage_error(task, *overrides)


@pytest.mark.parametrize("task", ["classification", "tagging", "question-answering", "bert-pretraining"])
def test_examples_longer_than_the_model_reads_are_refused_before_any_work(task: str) -> None:
    message = usage_error(task, "data.max_length=300", "model.max_positions=200")
    assert message == "data.max_length 300 is more than the model's 200 positions (max_positions)"


def test_a_recurrent_translator_takes_its_own_preset_and_what_both_kinds_know() -> None:
    attentive, recurrent = load_recipe("dates"), load_recipe("dates", ["model.kind=recurrent"])
    assert (recurrent.model["kind"], recurrent.model["preset"]) == ("recurrent", "recurrent")
    assert model_settings(recurrent).items() >= PRESETS["recurrent"].model.items()
    assert recurrent.model["tie"] == attentive.model["tie"] == "target"
    assert not {"norm", "d_ff", "heads", "decoder_layers"} & set(recurrent.model)
    for section in ("data", "tokenizer", "training", "decoding"):
        assert getattr(recurrent, section) == getattr(attentive, section)


def test_the_preset_alone_chooses_the_kind_too() -> None:
    assert load_recipe("dates", ["model.preset=recurrent"]).model == load_recipe("dates", ["model.kind=recurrent"]).model


def test_a_recurrent_translator_can_be_changed_as_any_other(tmp_path: Path) -> None:
    own = ["model.kind=recurrent", "model.cell=lstm", "model.attention=dot", "model.d_model=64", "model.dropout=0.5"]
    recipe = load_recipe("translation", own)
    assert {key: recipe.model[key] for key in ("cell", "attention", "d_model", "dropout")} == {
        "cell": "lstm", "attention": "dot", "d_model": 64, "dropout": 0.5,
    }  # fmt: skip
    assert written_and_read(recipe, tmp_path) == recipe


def test_two_vocabularies_share_no_matrix() -> None:
    assert load_recipe("translation").model["tie"] == "all"
    assert load_recipe("translation", ["tokenizer.joint=false"]).model["tie"] == "target"
    assert load_recipe("translation", ["tokenizer.joint=false", "model.kind=recurrent"]).model["tie"] == "target"
    assert "model.tie=all needs one vocabulary" in usage_error("translation", "tokenizer.joint=false", "model.tie=all")


@pytest.mark.parametrize("task", JOBS)
def test_a_user_s_files_take_the_place_of_the_default_data(task: str, tmp_path: Path) -> None:
    recipe = "dates" if task == "translation" else task
    assert load_recipe(recipe).data.generate == JOBS[task].generate[0]
    for key in [key for key in FILES if key in {field.name for field in dataclasses.fields(JOBS[task].data)}]:
        own = load_recipe(recipe, [f"data.{key}=mine"])
        assert (getattr(own.data, key), own.data.generate) == ("mine", "")
        assert written_and_read(own, tmp_path) == own
        message = usage_error(recipe, f"data.{key}=mine", f"data.generate={JOBS[task].generate[0]}")
        assert message == f"data.generate={JOBS[task].generate[0]} generates its own data; leave it out to use files"


def test_a_pretrained_model_decides_the_shape(tmp_path: Path) -> None:
    recipe = load_recipe("classification", ["model.pretrained=some/bert"])
    assert recipe.model == {"kind": "bert", "preset": "bert-tiny", "pretrained": "some/bert"}
    assert model_settings(recipe) == {}
    assert written_and_read(recipe, tmp_path) == recipe
    for key in ("layers=2", "d_model=32", "max_positions=64", "activation=relu"):
        message = usage_error("classification", "model.pretrained=some/bert", f"model.{key}")
        assert message == f"model.{key.split('=')[0]} cannot be changed: model.pretrained=some/bert decides it"


def test_what_has_no_shape_may_be_chosen_anew_for_a_pretrained_model(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"dropout": 0.3, "attention_dropout": 0.2, "pooling": "mean"}
    recipe = load_recipe("classification", ["model.pretrained=x", *(f"model.{key}={value}" for key, value in chosen.items())])
    assert model_settings(recipe) == chosen
    assert written_and_read(recipe, tmp_path) == recipe, "the workers of a run and its continuation read it back from there"
    assert written_and_read(recipe, tmp_path, "model.dropout=0.1").model["dropout"] == 0.1


def test_a_recipe_file_may_name_a_pretrained_model() -> None:
    raw: dict[str, Json] = {"task": "classification", "model": {"pretrained": "x", "dropout": 0.3}}
    assert model_settings(resolve(raw)) == {"dropout": 0.3}
    with pytest.raises(UsageError, match=r"model\.layers cannot be changed: model\.pretrained=x decides it"):
        resolve({"task": "classification", "model": {"pretrained": "x", "layers": 3}})


@pytest.mark.parametrize("task", JOBS)
def test_a_model_of_the_recipe_can_be_made(task: str) -> None:
    """Every setting that the job does not decide has a value that its model takes."""
    recipe, job = load_recipe(task), JOBS[task]
    sizes = {"source_vocab": 9, "target_vocab": 9, "vocab": 9, "classes": 0 if job.head == "pretraining" else 2}
    decided = {**sizes, "head": job.head, "image_size": 8, "channels": 1}
    config = config_class(recipe.model["kind"])(**{key: decided[key] for key in job.fixed}, **model_settings(recipe))
    assert config.d_model >= 64
