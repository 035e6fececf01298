"""Attention maps are the weights the model really used."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedful.decoding.translator import Translator
from heedful.explain.maps import attention_maps
from heedful.explain.report import curve, round_ticks
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.text import Tokenizer


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("char", ["ein mann und ein hund"], 40)
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, layers=3, decoder_layers=2, d_model=16, d_ff=16, heads=4)
    return Translator(Seq2Seq(config).eval(), tokenizer, tokenizer, beam=2, max_extra=3)


def test_every_layer_and_head_is_there_with_rows_that_sum_to_one(translator: Translator) -> None:
    maps = attention_maps(translator, "ein hund")
    source, target = len("ein hund") + 1, len(maps.outputs)
    assert maps.source == [*"ein hund", "⟨end⟩"]
    assert (maps.inputs[0], maps.outputs[-1]) == ("⟨begin⟩", "⟨end⟩")
    assert maps.inputs[1:] == maps.outputs[:-1]
    assert [w.shape for w in maps.encoder] == [(4, source, source)] * 3
    assert [w.shape for w in maps.decoder] == [(4, target, target)] * 2
    assert [w.shape for w in maps.cross] == [(4, target, source)] * 2
    for weights in [*maps.encoder, *maps.decoder, *maps.cross]:
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_the_decoder_never_looks_ahead(translator: Translator) -> None:
    for weights in attention_maps(translator, "ein mann").decoder:
        assert not np.triu(weights, k=1).any()


def test_looking_leaves_the_model_as_it_was(translator: Translator) -> None:
    before = translator.translate(["ein mann"])
    attention_maps(translator, "ein mann")
    assert translator.translate(["ein mann"]) == before
    assert all(getattr(module, "weights", None) is None for module in translator.model.modules())


@pytest.mark.parametrize("highest", [0.0, 0.003, 0.7, 1.0, 3.44, 99.9, 100.0, 15_012.0, 2e6])
def test_ticks_are_few_round_and_reach_the_highest_value(highest: float) -> None:
    ticks = round_ticks(highest)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0.0
    assert ticks[-1] >= highest * (1 - 1e-9)


def test_a_curve_without_points_is_left_out_and_text_is_escaped() -> None:
    assert curve("nothing", {"a": []}) == ""
    assert "<b>" not in curve("<b>", {"<b>": [(1, 2.0), (2, 1.0)]})
