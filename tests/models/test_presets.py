"""Every row of the paper's Table 3 as a preset, and the sizes of other models, with their numbers of parameters."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import pytest
import torch

from heedful.errors import UsageError
from heedful.models import build_model, config_class
from heedful.models.presets import PRESETS, find_preset
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.recipes import Recipe, model_settings, resolve

VOCAB = 40_800


class Row(NamedTuple):
    """One row of Table 3; what a row leaves out is as in base."""

    N: int = 6
    D: int = 512
    F: int = 2048
    H: int = 8
    K: int = 64
    V: int = 64
    dropout: float = 0.1
    smoothing: float = 0.1
    steps: int = 100_000
    positions: str = "sinusoidal"
    millions: int | None = None


TABLE_3 = {
    "base": Row(millions=65),
    "a-heads-1": Row(H=1, K=512, V=512),
    "a-heads-4": Row(H=4, K=128, V=128),
    "a-heads-16": Row(H=16, K=32, V=32),
    "a-heads-32": Row(H=32, K=16, V=16),
    "b-dk-16": Row(K=16, millions=58),
    "b-dk-32": Row(K=32, millions=60),
    "c-layers-2": Row(N=2, millions=36),
    "c-layers-4": Row(N=4, millions=50),
    "c-layers-8": Row(N=8, millions=80),
    "c-width-256": Row(D=256, K=32, V=32, millions=28),
    "c-width-1024": Row(D=1024, K=128, V=128, millions=168),
    "c-ff-1024": Row(F=1024, millions=53),
    "c-ff-4096": Row(F=4096, millions=90),
    "d-dropout-0.0": Row(dropout=0.0),
    "d-dropout-0.2": Row(dropout=0.2),
    "d-smoothing-0.0": Row(smoothing=0.0),
    "d-smoothing-0.2": Row(smoothing=0.2),
    "e-learned": Row(positions="learned"),
    "big": Row(D=1024, F=4096, H=16, dropout=0.3, steps=300_000, millions=213),
}


TINY = Row(N=4, D=128, F=256, H=4, K=32, V=32)
TINY_ROWS = {  # row of Table 3 → its preset at the scale of tiny, and the settings this should have
    "a-heads-1": ("tiny-a-heads-1", TINY._replace(H=1, K=128, V=128)),
    "a-heads-4": ("tiny-a-heads-2", TINY._replace(H=2, K=64, V=64)),
    "a-heads-16": ("tiny-a-heads-8", TINY._replace(H=8, K=16, V=16)),
    "a-heads-32": ("tiny-a-heads-16", TINY._replace(H=16, K=8, V=8)),
    "b-dk-16": ("tiny-b-dk-8", TINY._replace(K=8)),
    "b-dk-32": ("tiny-b-dk-16", TINY._replace(K=16)),
    "c-layers-2": ("tiny-c-layers-1", TINY._replace(N=1)),
    "c-layers-4": ("tiny-c-layers-3", TINY._replace(N=3)),
    "c-layers-8": ("tiny-c-layers-5", TINY._replace(N=5)),
    "c-width-256": ("tiny-c-width-64", TINY._replace(D=64, K=16, V=16)),
    "c-width-1024": ("tiny-c-width-256", TINY._replace(D=256, K=64, V=64)),
    "c-ff-1024": ("tiny-c-ff-128", TINY._replace(F=128)),
    "c-ff-4096": ("tiny-c-ff-512", TINY._replace(F=512)),
    "d-dropout-0.0": ("tiny-d-dropout-0.0", TINY._replace(dropout=0.0)),
    "d-dropout-0.2": ("tiny-d-dropout-0.2", TINY._replace(dropout=0.2)),
    "d-smoothing-0.0": ("tiny-d-smoothing-0.0", TINY._replace(smoothing=0.0)),
    "d-smoothing-0.2": ("tiny-d-smoothing-0.2", TINY._replace(smoothing=0.2)),
    "e-learned": ("tiny-e-learned", TINY._replace(positions="learned")),
    "big": ("tiny-big", TINY._replace(D=256, F=512, H=8, dropout=0.3)),
}


def test_every_row_of_table_3_is_also_there_at_the_scale_of_tiny() -> None:
    assert set(TINY_ROWS) == set(TABLE_3) - {"base"}
    assert {name for name, _ in TINY_ROWS.values()} == {name for name in PRESETS if name.startswith("tiny-")}


@pytest.mark.parametrize(("preset", "row"), TINY_ROWS.values())
def test_a_row_at_the_scale_of_tiny_changes_that_alone(preset: str, row: Row) -> None:
    plain, recipe = resolve({}, ["model.preset=tiny"]), resolve({}, [f"model.preset={preset}"])
    config = Seq2SeqConfig(VOCAB, VOCAB, **model_settings(recipe))
    assert (config.layers, config.d_model, config.d_ff, config.heads) == (row.N, row.D, row.F, row.H)
    assert (config.key_width, config.d_v or config.d_model // config.heads) == (row.K, row.V)
    assert (config.dropout, recipe.training.label_smoothing, config.positions) == (row.dropout, row.smoothing, row.positions)
    assert recipe.training.steps == plain.training.steps


def settle(preset: str) -> tuple[Recipe, Seq2Seq]:
    """The recipe that names only this preset, and its model."""
    recipe = resolve({"model": {"preset": preset}})
    with torch.device("meta"):  # shapes without memory
        return recipe, Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **model_settings(recipe)))


@pytest.mark.parametrize("name", TABLE_3)
def test_a_preset_has_the_settings_of_its_row(name: str) -> None:
    row = TABLE_3[name]
    recipe, model = settle(name)
    config: Any = model.config
    attention: Any = model.encoder.layers[0].self_attention
    assert (config.layers, len(model.encoder.layers), len(model.decoder.layers)) == (row.N, row.N, row.N)
    assert (config.d_model, config.d_ff, config.heads) == (row.D, row.F, row.H)
    assert (attention.heads, attention.d_k, attention.d_v) == (row.H, row.K, row.V)
    assert (config.dropout, config.positions) == (row.dropout, row.positions)
    assert (config.norm, config.activation, config.tie, config.reads) == ("post", "relu", "all", "last")
    assert (recipe.training.label_smoothing, recipe.training.steps) == (row.smoothing, row.steps)
    assert recipe.training.average == (20 if name == "big" else 5)


def test_the_paper_s_training_recipe_is_the_default() -> None:
    training = settle("base")[0].training
    assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.warmup, training.learning_rate) == ("inverse-sqrt", 4000, 0.0)


@pytest.mark.parametrize("name", [name for name, row in TABLE_3.items() if row.millions])
def test_parameter_counts_are_those_of_the_paper(name: str) -> None:
    _, model = settle(name)
    counted = sum(parameter.numel() for parameter in model.parameters())
    expected = TABLE_3[name].millions
    assert expected is not None
    assert PRESETS[name].parameters == expected
    assert counted == pytest.approx(expected * 1e6, rel=0.03)


PUBLISHED = {  # with 50,257 tokens, 30,522 tokens, and 1000 classes
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "vit-tiny": 5_717_416,
    "vit-small": 22_050_664,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
}
# Google's table of small BERTs, in millions, with the pre-training head.
SMALL_BERTS = {"bert-tiny": 4.4, "bert-mini": 11.3, "bert-small": 29.1, "bert-medium": 41.7}
FIRST = {"gpt": {"vocab": 50_257}, "bert": {"vocab": 30_522}, "vit": {"classes": 1000}}


def count(name: str, **more: Any) -> int:
    """Parameters of a preset, without making them."""
    preset = PRESETS[name]
    with torch.device("meta"):
        model = build_model(config_class(preset.kind)(**FIRST[preset.kind], **preset.model, **more))
    return sum(model.parameters_by_part().values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_their_published_number_of_parameters(name: str) -> None:
    assert count(name) == PUBLISHED[name]


@pytest.mark.parametrize("name", SMALL_BERTS)
def test_small_berts_have_the_size_google_gives(name: str) -> None:
    assert count(name, head="pretraining") / 1e6 == pytest.approx(SMALL_BERTS[name], abs=0.051)


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.kind in FIRST and preset.parameters])
def test_a_preset_states_its_number_of_parameters(name: str) -> None:
    assert count(name) / 1e6 == pytest.approx(PRESETS[name].parameters, abs=0.051)


@pytest.mark.parametrize("name", PRESETS)
def test_naming_a_preset_replaces_the_whole_shape(name: str) -> None:
    shape = {"layers", "d_model", "d_ff", "heads", "context", "image_size", "channels", "patch", "cell", "bidirectional"}
    known = {field.name for field in fields(config_class(PRESETS[name].kind))}
    assert shape & known <= set(PRESETS[name].model) <= known


def test_presets_for_an_ordinary_computer() -> None:
    shape = {"layers": 4, "d_model": 128, "d_ff": 512, "heads": 4, "context": 128, "activation": "relu"}
    assert PRESETS["gpt-mini"].model == shape
    assert count("gpt-mini") < 8e6
    model = build_model(config_class("vit")(classes=10, **PRESETS["vit-digits"].model))
    assert model(torch.rand(3, 1, 8, 8)).shape == (3, 10)


def test_translation_presets_are_the_table_and_tiny() -> None:
    assert {name for name, preset in PRESETS.items() if preset.kind == "seq2seq"} == {
        *TABLE_3,
        "tiny",
        *(name for name, _ in TINY_ROWS.values()),
    }
    config = settle("tiny")[1].config
    assert (config.layers, config.d_model, config.d_ff, config.heads) == (4, 128, 256, 4)


def test_one_row_is_never_changed_by_another() -> None:
    before = {name: (dict(preset.model), dict(preset.training)) for name, preset in PRESETS.items()}
    for name in (*TABLE_3, "tiny"):
        resolve({"model": {"preset": name}}, ["training.steps=7", "model.layers=1"])
    assert {name: (preset.model, preset.training) for name, preset in PRESETS.items()} == before


@pytest.mark.parametrize(("wrong", "nearest"), [("bsae", "base"), ("bigg", "big"), ("c-layer-4", "c-layers-4")])
def test_an_unknown_preset_suggests_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"there is no preset '{wrong}'; did you mean '{nearest}'?"):
        find_preset(wrong)


def test_a_preset_like_no_other_gets_the_list() -> None:
    with pytest.raises(UsageError) as caught:
        find_preset("xyzzy")
    assert all(name in str(caught.value) for name in PRESETS)
