"""Recipes: layered as documented, checked before any work, and written out so that they read back the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heedful.errors import HeedfulError, UsageError
from heedful.jobs.data_settings import PairSettings
from heedful.jobs.registry import TRAINABLE as JOBS
from heedful.models import config_class
from heedful.models.presets import PRESETS
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.recipes import Recipe, load_recipe, model_settings, resolve, shipped_recipes
from heedful.recipes.open_settings import FITTED
from heedful.recipes.settings import DecodingSettings, TokenizerSettings, TrainingSettings
from heedful.settings import Json

OF_PAIRS = sorted(name for name, preset in PRESETS.items() if preset.kind in JOBS["translation"].kinds)


def written_and_read(recipe: Recipe, folder: Path) -> Recipe:
    (folder / "written.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return load_recipe(str(folder / "written.toml"))


def recipe_file(folder: Path, text: str) -> str:
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return str(folder / "mine.toml")


def usage_error(name: str, *overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_recipe(name, overrides)
    return str(caught.value)


def test_a_recipe_of_every_job_is_shipped_under_its_name_and_two_more_translators() -> None:
    assert set(shipped_recipes()) == {*JOBS, "dates", "multi30k", "long-recall", "listops"}
    for name in JOBS:
        assert load_recipe(name).task == name
    assert load_recipe("dates").task == load_recipe("multi30k").task == "translation"


def test_translation_leaves_to_the_data_what_nobody_gives_and_multi30k_leaves_nothing() -> None:
    assert not load_recipe("multi30k").open
    every = {f"{section}.{key}" for section, keys in FITTED.items() for key in keys}
    assert set(load_recipe("translation").open) == every
    given = ["training.steps=300", "model.d_model=64", "tokenizer.file=some.json"]
    gone = every - set(load_recipe("translation", given).open)
    assert gone == {"training.steps", "model.d_model", "tokenizer.size"}
    assert not {"model.layers", "training.warmup"} & set(load_recipe("translation", ["model.preset=base"]).open)
    assert not {name for name in load_recipe("translation", ["model.kind=recurrent"]).open if name.startswith("model.")}


def test_a_recipe_file_may_leave_settings_open_too(tmp_path: Path) -> None:
    path = recipe_file(tmp_path, "fit = true\n[training]\nsteps = 5\n[model]\npreset = 'tiny'")
    assert {"training.steps", "training.warmup"} & set(load_recipe(path).open) == {"training.warmup"}
    assert "fit must be true or false" in usage_error(recipe_file(tmp_path, "fit = 3"))
    assert "fit = true is for translation" in usage_error(recipe_file(tmp_path, "fit = true\ntask = 'tagging'"))


@pytest.mark.parametrize(("steps", "warmup"), [(300, 30), (5, 1), (100_000, 600)])
def test_the_warm_up_of_a_short_training_is_a_tenth_of_it(steps: int, warmup: int) -> None:
    assert load_recipe("multi30k", [f"training.steps={steps}"]).training.warmup == warmup
    assert load_recipe("multi30k", [f"training.steps={steps}", "training.warmup=7"]).training.warmup == 7


def test_muon_falls_back_to_adam_where_it_cannot_be_used() -> None:
    assert load_recipe("translation").training.optimizer == "muon"
    assert load_recipe("translation", ["training.shard=true"]).training.optimizer == "muon"
    assert load_recipe("translation", ["model.kind=recurrent"]).training.optimizer == "adam"
    with pytest.raises(UsageError, match="muon is for the matrices of Transformer layers"):
        load_recipe("translation", ["model.kind=recurrent", "training.optimizer=muon"])


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_loads_and_tells_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.about
    assert recipe.model["kind"] == JOBS[recipe.task].kinds[0]
    assert isinstance(recipe.data, JOBS[recipe.task].data)
    assert set(model_settings(recipe)) <= set(config_class(recipe.model["kind"]).__dataclass_fields__)


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_a_recipe_written_out_reads_back_the_same(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    again = written_and_read(recipe, tmp_path)
    assert again.flat() == recipe.flat()
    assert again == recipe


@pytest.mark.parametrize("preset", OF_PAIRS)
def test_every_preset_written_out_reads_back_the_same(preset: str, tmp_path: Path) -> None:
    recipe = load_recipe("translation", [f"model.preset={preset}", "training.epsilon=1e-9", "training.beta2=0.997"])
    assert written_and_read(recipe, tmp_path) == recipe


def test_a_preset_s_value_that_was_taken_away_stays_away(tmp_path: Path) -> None:
    recipe = load_recipe("translation", ["model.preset=b-dk-16", "model.d_k=none"])
    assert recipe.model["d_k"] is None
    again = written_and_read(recipe, tmp_path)
    assert again.flat() == recipe.flat()


@settings(deadline=None, max_examples=60)
@given(text=st.text())
@example(text='"""\\ \x00\x1f\x7f\u2028\r\n\t= # 😀')
def test_any_text_in_a_recipe_reads_back_the_same(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    recipe = Recipe("mine", about=text, data=PairSettings(source=f"x{text}", target=text), model={"preset": "base"})
    again = written_and_read(recipe, tmp_path_factory.mktemp("recipe"))
    assert (again.about, again.data) == (text, recipe.data)


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("training.steps=1_000", "training.steps", 1000),
        ("training.learning_rate=3e-4", "training.learning_rate", 3e-4),
        ("training.clip=2", "training.clip", 2.0),
        ("tokenizer.joint=false", "tokenizer.joint", False),
        ("tokenizer.joint=YES", "tokenizer.joint", True),
        ("data.source=a=b.txt", "data.source", "a=b.txt"),
        ("data.source=", "data.source", ""),
        ("model.decoder_layers=2", "model.decoder_layers", 2),
        ("model.decoder_layers=none", "model.decoder_layers", None),
        ("model.dropout=0", "model.dropout", 0.0),
    ],
)
def test_an_override_has_the_type_of_its_setting(override: str, key: str, value: Any) -> None:
    found = load_recipe("translation", [override]).flat()[key]
    assert found == value
    assert type(found) is type(value)


def test_the_last_of_two_overrides_counts() -> None:
    assert load_recipe("dates", ["training.steps=1", "training.steps=2"]).training.steps == 2


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("trainign.steps=1", "did you mean 'training'?"),
        ("training.step=1", "did you mean 'steps'?"),
        ("model.droput=0", "did you mean 'dropout'?"),
        ("model.preset=bas", "did you mean 'base'?"),
        ("tokenizer.knd=bpe", "did you mean 'kind'?"),
        (
            "decoding.zzzzz=1",
            "known: beam, length_penalty, max_extra, max_tokens, no_repeat_ngram, repetition_penalty, validation_beam",
        ),
    ],
)
def test_an_unknown_name_suggests_the_nearest(override: str, nearest: str) -> None:
    message = usage_error("dates", override)
    assert "there is no" in message
    assert message.endswith(nearest)


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    assert usage_error("daets") == "there is no recipe 'daets'; did you mean 'dates'?"
    assert usage_error("zzz") == "there is no recipe 'zzz'; known: " + ", ".join(sorted(shipped_recipes()))
    assert usage_error("absent.toml") == "there is no recipe file absent.toml"


def test_an_unknown_name_in_a_file_suggests_the_nearest(tmp_path: Path) -> None:
    assert "section 'trainig'; did you mean 'training'?" in usage_error(recipe_file(tmp_path, "[trainig]\nsteps = 1"))
    assert "setting 'training.stesp'; did you mean 'steps'?" in usage_error(recipe_file(tmp_path, "[training]\nstesp = 1"))
    assert "did you mean 'about'?" in usage_error(recipe_file(tmp_path, 'abuot = "x"'))
    assert "preset 'tinny'; did you mean 'tiny'?" in usage_error(recipe_file(tmp_path, '[model]\npreset = "tinny"'))


def test_vocabulary_sizes_are_not_settings() -> None:
    assert "there is no setting 'model.source_vocab'" in usage_error("dates", "model.source_vocab=10")


@pytest.mark.parametrize("override", ["training.steps", "steps=4", "=", "training=4", "--steps=4"])
def test_an_override_of_another_form_shows_the_right_one(override: str) -> None:
    assert "section.key=value, such as training.steps=1000" in usage_error("dates", override)


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("training.steps=many", "training.steps must be a whole number, not 'many'"),
        ("training.steps=1.5", "training.steps must be a whole number, not '1.5'"),
        ("training.steps=", "training.steps must be a whole number, not ''"),
        ("training.clip=x", "training.clip must be a number, not 'x'"),
        ("tokenizer.joint=maybe", "tokenizer.joint must be true or false, not 'maybe'"),
        ("training.steps=0", "training.steps must be at least 1, not 0"),
        ("training.seed=-1", "training.seed must be at least 0, not -1"),
        ("decoding.beam=0", "decoding.beam must be at least 1, not 0"),
        ("data.hold_out=0", "data.hold_out must be at least 1, not 0"),
        ("tokenizer.size=7", "tokenizer.size must be at least 8, not 7"),
        ("training.learning_rate=nan", "training.learning_rate must be"),
        ("training.clip=inf", "training.clip must be a finite number, not inf"),
        ("training.label_smoothing=1", "training.label_smoothing must be at least 0 and below 1, not 1.0"),
        ("training.beta2=1", "training.beta2 must be at least 0 and below 1, not 1.0"),
        ("training.epsilon=-1", "training.epsilon must be at least 0, not -1.0"),
        ("tokenizer.kind=spm", "tokenizer.kind must be one of bpe, wordpiece, sentencepiece, char, byte, word, not 'spm'"),
        ("training.metric=ter", "training.metric must be one of bleu, chrf, exact, loss, not 'ter'"),
        ("training.schedule=cosine", "training.schedule must be one of"),
        ("training.precision=fp8", "training.precision must be one of"),
        ("data.generate=poems", "data.generate must be one of dates, not 'poems'"),
        ("data.valid_target=x", "data.valid_target is given without data.valid_source"),
        ("model.heads=3", "d_model 128 is not divisible by heads 3"),
        ("model.norm=middle", "norm must be one of post, pre, not 'middle'"),
        ("model.dropout=1", "dropout must be at least 0 and below 1"),
        ("training.weight_decay=1e20", "training.weight_decay must be at most 100, not 1e+20"),
        ("training.r_drop=1e9", "training.r_drop must be at most 1,000, not"),
        ("decoding.length_penalty=inf", "decoding.length_penalty must be a finite number, not inf"),
        ("decoding.max_extra=-1", "decoding.max_extra must be at least 0, not -1"),
        ("decoding.beam=1000000", "decoding.beam must be at most 1,000, not 1000000"),
        (f"training.seed={'9' * 31}", "training.seed must be at most 9,223,372,036,854,775,807, not 9999"),
        (f"training.steps={'9' * 5000}", "training.steps must be"),
        ("training.batch_tokens=99999999999", "training.batch_tokens must be at most 2,147,483,648"),
        ("data.source=\udcff.txt", "data.source is not valid UTF-8; rename the file"),
    ],
)
def test_a_bad_value_is_named_before_any_work(override: str, fault: str) -> None:
    assert fault in usage_error("dates", override)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[training]\nsteps = "5"', "training.steps must be a whole number, not '5'"),
        ("[training]\nsteps = true", "training.steps must be a whole number, not True"),
        ("[training]\nsteps = 1.5", "training.steps must be a whole number, not 1.5"),
        ("[training]\nclip = inf", "training.clip must be a finite number"),
        ("[tokenizer]\njoint = 1", "tokenizer.joint must be true or false, not 1"),
        ("[tokenizer]\nkind = 3", "tokenizer.kind must be text, not 3"),
        ("[model]\nd_k = [1]", "model.d_k must be a whole number, not [1]"),
        ("training = 5", "[training] must be a section"),
        ('task = "chess"', "there is no task 'chess'; known: bert-pretraining, classification, image-classification,"),
        ('task = "taging"', "there is no task 'taging'; did you mean 'tagging'?"),
    ],
)
def test_a_bad_value_in_a_file_is_named(text: str, fault: str, tmp_path: Path) -> None:
    assert fault in usage_error(recipe_file(tmp_path, text))


def test_a_whole_number_in_a_file_may_stand_for_a_number(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, "[training]\nclip = 2\n[model]\ndropout = 0"))
    assert (recipe.training.clip, type(recipe.training.clip)) == (2.0, float)
    assert type(recipe.model["dropout"]) is float


@pytest.mark.parametrize(
    "content", [b"[training", b"steps 5", b'about = "\xff"', b"[training]\nsteps = 1\nsteps = 2", b"x = " + b"[" * 9999]
)
def test_a_file_that_is_not_toml_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(HeedfulError, match=r"bad\.toml is not valid TOML"):
        load_recipe(str(tmp_path / "bad.toml"))


def test_a_recipe_is_named_after_its_file_or_its_run(tmp_path: Path) -> None:
    assert load_recipe(recipe_file(tmp_path, "")).name == "mine"
    (tmp_path / "my-run").mkdir()
    (tmp_path / "my-run" / "recipe.toml").write_text("")
    assert load_recipe(str(tmp_path / "my-run" / "recipe.toml")).name == "my-run"
    assert load_recipe(recipe_file(tmp_path, 'name = "yours"')).name == "yours"


def test_an_empty_recipe_is_the_defaults_and_the_base_model() -> None:
    recipe = resolve({})
    assert recipe.data == PairSettings()
    assert recipe.tokenizer == TokenizerSettings()
    assert recipe.decoding == DecodingSettings()
    assert recipe.training == TrainingSettings(**PRESETS["base"].training, metric="bleu")
    assert Seq2SeqConfig(100, 100, **model_settings(recipe)) == Seq2SeqConfig(100, 100)


def test_a_recipe_beats_the_preset_it_names() -> None:
    recipe = resolve({"model": {"preset": "big", "d_ff": 100}, "training": {"steps": 5}})
    assert (recipe.model["d_model"], recipe.model["d_ff"]) == (1024, 100)
    assert (recipe.training.steps, recipe.training.average) == (5, 20)


def test_a_preset_beats_the_defaults() -> None:
    assert resolve({"model": {"preset": "d-smoothing-0.2"}}).training.label_smoothing == 0.2


def test_a_preset_on_the_command_line_beats_the_recipe() -> None:
    raw: dict[str, Json] = {
        "model": {"preset": "tiny", "d_ff": 100, "tie": "none"},
        "training": {"steps": 5, "average": 2, "clip": 7.0},
    }
    recipe = resolve(raw, ["model.preset=big"])
    origin = {"kind": "seq2seq", "preset": "big", "pretrained": ""}
    assert recipe.model == {**PRESETS["big"].model, **origin, "tie": "none"}  # the preset says nothing about ties
    assert (recipe.model["d_ff"], recipe.training.steps, recipe.training.average) == (4096, 300_000, 20)
    assert recipe.training.clip == 7.0  # nor about this


@pytest.mark.parametrize("overrides", [["model.preset=big", "model.d_ff=64"], ["model.d_ff=64", "model.preset=big"]])
def test_other_overrides_beat_a_preset_on_the_command_line_in_any_order(overrides: list[str]) -> None:
    recipe = resolve({"model": {"preset": "tiny", "d_ff": 100}}, [*overrides, "training.steps=9"])
    assert (recipe.model["d_ff"], recipe.model["d_model"], recipe.training.steps) == (64, 1024, 9)


def test_settings_of_the_model_leave_out_where_it_comes_from() -> None:
    recipe = load_recipe("dates")
    assert (recipe.model["kind"], recipe.model["preset"], recipe.model["pretrained"]) == ("seq2seq", "tiny", "")
    assert not {"kind", "preset", "pretrained"} & set(model_settings(recipe))
