"""Attention maps are the weights that the model used, for every kind of model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import TASKS, Trained, small_recipe
from heedful.data.drops import Drops
from heedful.explain.maps import LONGEST, AttentionMap, attention_maps, drawable
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.pipelines import load_pipeline
from heedful.pipelines.translator import Translator
from heedful.text import Tokenizer

CHARACTERS = Tokenizer.train("char", ["ein mann und ein hund"], 40)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(0)
    config = Seq2SeqConfig(CHARACTERS.size, CHARACTERS.size, layers=3, decoder_layers=2, d_model=16, d_ff=16, heads=4)
    return Translator(Seq2Seq(config).eval(), CHARACTERS, CHARACTERS, beam=2, max_extra=3)


def check(one: AttentionMap, layers: int, heads: int) -> None:
    """Every layer and head has one row per query and one column per key, and the rows sum to one."""
    assert [weights.shape for weights in one.layers] == [(heads, len(one.rows), len(one.columns))] * layers
    for weights in one.layers:
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_every_layer_and_head_is_there_with_rows_that_sum_to_one(translator: Translator) -> None:
    maps = attention_maps(translator, ("ein hund", "a dog"))
    source = [*"ein hund", "⟨end⟩"]
    assert maps.keys() == {"cross", "encoder", "decoder"}
    assert (maps["encoder"].rows, maps["encoder"].columns, maps["cross"].columns) == (source, source, source)
    inputs, outputs = maps["decoder"].rows, maps["cross"].rows
    assert maps["decoder"].columns == inputs
    assert (inputs[0], outputs[-1]) == ("⟨begin⟩", "⟨end⟩")
    assert inputs[1:] == outputs[:-1]
    check(maps["encoder"], 3, 4)
    check(maps["decoder"], 2, 4)
    check(maps["cross"], 2, 4)


def test_the_decoder_never_looks_ahead(translator: Translator) -> None:
    for weights in attention_maps(translator, ("ein mann", ""))["decoder"].layers:
        assert not np.triu(weights, k=1).any()


def test_looking_leaves_the_model_as_it_was(translator: Translator) -> None:
    before = translator.translate(["ein mann"])
    attention_maps(translator, ("ein mann", ""))
    assert translator.translate(["ein mann"]) == before


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_a_recurrent_translator_has_the_map_of_its_attention_if_it_has_one(attention: Any) -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(CHARACTERS.size, CHARACTERS.size, d_model=16, attention=attention)
    model: Any = Recurrent(config).eval()
    maps = attention_maps(Translator(model, CHARACTERS, CHARACTERS, max_extra=3), ("ein hund", ""))
    assert list(maps) == ([] if attention == "none" else ["cross"])
    for one in maps.values():
        assert one.columns == [*"ein hund", "⟨end⟩"]
        check(one, 1, 1)


def examples_of(task: str, run: Path, folder: Path) -> list[Any]:
    """Validation examples of a trained job as its `predict` takes them."""
    if task == "image-classification":
        pipeline = load_pipeline(run)
        return list(pipeline.read_examples(Path(small_recipe(task, folder).data.train), Drops()))
    from heedful.jobs.registry import JOBS as ALL_JOBS
    from heedful.recipes import load_recipe

    return list(ALL_JOBS[task].task_class(load_recipe(str(run / "recipe.toml")), run / "data").valid)


@pytest.mark.parametrize("task", TASKS)
def test_every_job_shows_where_its_model_looked(task: str, trained: Trained, tmp_path: Path) -> None:
    pipeline = load_pipeline(trained(task))
    maps = attention_maps(pipeline, examples_of(task, trained(task), tmp_path)[0])
    assert maps
    for one in maps.values():
        check(one, 1, pipeline.model.config.heads)
        assert one.about
    if task == "language-model":
        assert maps["decoder"].rows[0] == "⟨end⟩"
        assert not np.triu(maps["decoder"].layers[0], k=1).any()
    elif task == "image-classification":
        assert maps["encoder"].rows[:6] == ["[CLS]", "1,1", "1,2", "1,3", "1,4", "2,1"]
        assert len(maps["encoder"].rows) == 1 + 16
        assert maps["encoder"].grid == (4, 4)
        assert maps["encoder"].picture.startswith("data:image/png;base64,")
    elif "encoder" in maps and "cross" not in maps:
        assert (maps["encoder"].rows[0], maps["encoder"].rows[-1]) == ("[CLS]", "[SEP]")
        texts = 2 if task in ("question-answering", "bert-pretraining") else 1
        assert maps["encoder"].rows.count("[SEP]") == texts


def test_drawable_maps_have_whole_numbers_and_say_what_is_left_out() -> None:
    weights = np.full((2, LONGEST + 2, 3), 1 / 3, dtype=np.float32)
    tokens = [str(number) for number in range(LONGEST + 2)]
    (drawn,) = drawable({"cross": AttentionMap("About.", tokens, ["a", "b", "c"], [weights, weights * np.nan])})
    assert (drawn["rows"], drawn["columns"]) == (tokens[:LONGEST], ["a", "b", "c"])
    assert [layer["number"] for layer in drawn["layers"]] == [1, 2]
    assert drawn["layers"][0]["heads"][1][LONGEST - 1] == [333, 333, 333]
    assert drawn["layers"][1]["heads"][0][0] == [0, 0, 0]  # of a model that has diverged
    assert drawn["note"] == f"Only the first {LONGEST} tokens are shown."
    assert "NaN" not in json.dumps(drawn)


def test_a_large_vision_transformer_keeps_every_patch_and_some_of_its_layers() -> None:
    names = [str(number) for number in range(197)]
    weights = np.zeros((12, 197, 197), dtype=np.float32)
    (drawn,) = drawable({"encoder": AttentionMap("About.", names, names, [weights] * 12, "data:image/png;base64,", (14, 14))})
    assert drawn["rows"] == names
    assert [layer["number"] for layer in drawn["layers"]] == [1, 5, 8, 12]
    assert drawn["note"] == "To keep this page small, 4 of 12 layers are shown."
    assert drawn["picture"] == {"source": "data:image/png;base64,", "rows": 14, "columns": 14}
