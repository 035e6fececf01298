"""Models of every kind written for CTranslate2 and run there: the same outputs and the same scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import tokenizers
import torch
from interop_models import TEXTS, saved

from heedful.errors import HeedfulError, UsageError
from heedful.interop import ctranslate2 as ours
from heedful.interop.export import export_model
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.recurrent import RecurrentConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.pipelines import load_pipeline
from heedful.text import Tokenizer

SIZES: dict[str, Any] = {"layers": 2, "d_model": 32, "d_ff": 48, "heads": 4}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm, rotary": {"norm": "pre", "positions": "rotary"},
    "pre-norm": {"norm": "pre", "activation": "silu", "decoder_layers": 1},
    "learned positions": {"positions": "learned", "max_positions": 12, "activation": "gelu"},
    "relative positions": {"positions": "relative", "max_distance": 3, "d_k": 4},
    "no positions": {"positions": "none", "activation": "gelu-tanh"},
    "narrow keys": {"d_k": 4, "d_v": 8, "scale_embedding": False, "tie": "target"},
    "wide keys": {"d_k": 16, "d_v": 8, "positions": "rotary", "tie": "none"},
}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "GPT-2": {},
    "rotary": {"positions": "rotary", "tie": False},
    "post-norm": {"norm": "post", "positions": "sinusoidal"},
    "linear bias": {"positions": "linear-bias", "activation": "relu"},
    "relative": {"positions": "relative", "max_distance": 4},
    "no positions": {"positions": "none", "epsilon": 1e-3},
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS, 320, masked=True)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_gives_the_same_translations_in_ctranslate2(name: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, **{**SIZES, **TRANSLATORS[name]})
    pipeline = saved("translation", config, {"tokenizer": tokenizer}, {"max_extra": 8}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    assert "20 of 20 outputs identical" in proof

    # As people use it, with nothing of heedful.
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    for text in TEXTS[:3]:
        tokens = reader.encode(text, add_special_tokens=False).tokens
        (found,) = translator.translate_batch([tokens], beam_size=1, max_decoding_length=len(tokens) + 9)
        ids = [reader.token_to_id(token) for token in found.hypotheses[0]]
        assert ids == pipeline.search([text], beam=1)[0][0].tokens


def test_two_vocabularies_may_name_their_special_tokens_differently(tokenizer: Tokenizer, tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "</s>": 1, "a": 2, "b": 3}, "[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    source = Tokenizer(backend, {"eos": "[SEP]"})
    config = Seq2SeqConfig(source.size + 2, tokenizer.size, tie="target", **SIZES)
    both = {"tokenizer": source, "target_tokenizer": tokenizer}
    saved("translation", config, both, {"max_extra": 5}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_gives_the_same_texts_in_ctranslate2(name: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = GPTConfig(tokenizer.size, context=60, **{**SIZES, **LANGUAGE_MODELS[name]})
    pipeline = saved("language-model", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    assert "20 of 20 outputs identical" in proof
    generator = ctranslate2.Generator(str(tmp_path / "out"), intra_threads=1)
    (found,) = generator.generate_batch([["</s>", *tokenizer.backend.encode("The fox").tokens]], max_length=9, end_token=[])
    assert found.sequences_ids[0][0] == tokenizer.eos
    assert len(pipeline.tokenizer.decode(found.sequences_ids[0])) > 3


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("embedding", {}),
        ("classification", {"head": "sequence", "classes": 3, "pooling": "mean"}),
        ("question-answering", {"head": "token", "classes": 2}),
        ("bert-pretraining", {"head": "pretraining"}),
    ],
)
def test_a_bert_gives_the_same_states_in_ctranslate2(
    task: str, settings: dict[str, Any], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = BertConfig(tokenizer.size, max_positions=130, epsilon=1e-6, **settings, **SIZES)
    given: dict[str, Any] = {"max_length": 128, **({"labels": ["a", "b", "c"]} if task == "classification" else {})}
    pipeline = saved(task, config, {"tokenizer": tokenizer}, given, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    assert "20 of 20 outputs identical" in proof
    assert (tmp_path / "out" / "head.safetensors").exists() == (task != "embedding")
    encoder = ctranslate2.Encoder(str(tmp_path / "out"), intra_threads=1)
    rows = [[tokenizer.bos, *tokenizer.encode(text)[:100], tokenizer.eos] for text in TEXTS]
    states = torch.from_numpy(np.array(encoder.forward_batch(rows).last_hidden_state))
    with torch.no_grad():
        for row, found in zip(rows, states, strict=True):  # padding of the batch changes nothing
            assert torch.allclose(found[: len(row)], pipeline.model.states(torch.tensor([row]))[0], atol=1e-4)


@pytest.mark.parametrize("precision", ours.QUANTIZE)
def test_a_lower_precision_is_smaller_and_leaves_the_model_in_memory_alone(
    precision: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, positions="rotary", **SIZES)
    pipeline = saved("translation", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    before = pipeline.translate(TEXTS, beam=1)
    sizes = []
    for wanted in (None, precision):
        folder = tmp_path / str(wanted)
        folder.mkdir()
        ours.write(pipeline, folder, wanted)
        sizes.append((folder / "model.bin").stat().st_size)
    assert sizes[1] < 0.7 * sizes[0]
    assert pipeline.translate(TEXTS, beam=1) == before


def test_what_cannot_be_expressed_is_refused_with_all_reasons_and_writes_nothing(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, positions="linear-bias", reads="mix", **SIZES)
    saved("translation", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    says = r"reads = 'mix' \(only 'last'\), positions = 'linear-bias'.*; train with model.reads=last model.positions=rotary"
    with pytest.raises(HeedfulError, match=says):
        export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    shutil.rmtree(tmp_path / "ours")
    recurrent = RecurrentConfig(tokenizer.size, tokenizer.size, d_model=8)
    saved("translation", recurrent, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    with pytest.raises(HeedfulError, match="Recurrent as the kind of model"):
        export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    with pytest.raises(UsageError, match="ctranslate2 has no precision 'int4'; it has int8"):
        export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2", "int4")
    assert not (tmp_path / "out").exists()


def test_an_export_that_is_not_the_same_model_fails_and_leaves_nothing(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, **SIZES)
    saved("translation", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    original = ours.build_spec

    def wrong(*arguments: Any) -> Any:
        spec = original(*arguments)
        spec.decoder.layer[1].ffn.linear_0.weight *= 1.5
        return spec

    monkeypatch.setattr(ours, "build_spec", wrong)
    with pytest.raises(HeedfulError, match=r"not the same as the original, so it was not kept: ctranslate2 [\d.]+ on made-up"):
        export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2")
    assert not (tmp_path / "out").exists()
    (said,) = export_model(tmp_path / "ours", tmp_path / "out", "ctranslate2", check=False)
    assert said == f"wrote a translation model to {tmp_path / 'out'} for ctranslate2.Translator"


def test_the_lines_of_the_proof_are_those_that_the_run_held_out(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, **SIZES)
    saved("translation", config, {"tokenizer": tokenizer}, {}, tmp_path / "run" / "best")
    (tmp_path / "run" / "data").mkdir()
    (tmp_path / "run" / "data" / "valid.json").write_text(json.dumps([[text, "ja"] for text in TEXTS]), encoding="utf-8")
    _, proof = export_model(tmp_path / "run" / "best", tmp_path / "out", "ctranslate2")
    assert "on held-out lines: 9 of 9 outputs identical" in proof
    assert load_pipeline(tmp_path / "run").task == "translation"
