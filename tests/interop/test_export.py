"""Models trained by heedful and loaded by transformers: the same tokens and the same outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop_models import TEXTS, batch, saved, shake

from heedful.errors import HeedfulError
from heedful.interop.export import export_model
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.jobs.registry import JOBS as ALL_JOBS
from heedful.models import build_model
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.recurrent import RecurrentConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.pipelines import load_pipeline
from heedful.text import Tokenizer

SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS, 320, masked=True)


@pytest.mark.parametrize("tie", ["all", "none"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_translator_gives_the_same_translations_in_transformers(
    joint: bool, tie: Any, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    target = tokenizer if joint else Tokenizer.train("wordpiece", TEXTS, 280)
    config = Seq2SeqConfig(tokenizer.size, target.size, tie=tie if joint else "target", **SIZES)
    tokenizers = {"tokenizer": tokenizer} if joint else {"tokenizer": tokenizer, "target_tokenizer": target}
    translator: Any = ALL_JOBS["translation"].pipeline_class.assemble(shake(build_model(config), 1), tokenizers, {"max_extra": 9})
    translator.save(tmp_path / "ours", "# A card")
    export_huggingface(tmp_path / "ours", tmp_path / "out")

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    writer = reader if joint else transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "target_tokenizer")
    for text in TEXTS:
        inputs = reader(text, return_tensors="pt")
        longest = inputs.input_ids.size(1) + 9
        found = model.generate(inputs.input_ids, num_beams=1, do_sample=False, max_length=longest + 1, forced_eos_token_id=None)
        ours = translator.search([text], beam=1)[0][0].tokens
        assert [token for token in found[0, 1:].tolist() if token != target.eos] == ours
        assert writer.decode(found[0], skip_special_tokens=True) == target.decode(ours)
    assert "# A card" in (tmp_path / "out" / "README.md").read_text()


@torch.no_grad()
def test_a_classifier_gives_the_same_outputs_in_transformers(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = BertConfig(tokenizer.size, head="sequence", classes=3, max_positions=90, **SIZES)
    settings = {"labels": ["a", "b", "c"], "max_length": 40}
    classifier: Any = ALL_JOBS["classification"].pipeline_class.assemble(
        shake(build_model(config), 2), {"tokenizer": tokenizer}, settings
    )
    classifier.save(tmp_path / "ours")
    export_huggingface(tmp_path / "ours", tmp_path / "out")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    inputs = reader(TEXTS, padding=True, truncation=True, return_tensors="pt")
    assert inputs.input_ids.size(1) == 40  # some were truncated
    for probabilities, best in zip(model(**inputs).logits.softmax(-1), classifier.classify(TEXTS, top=3), strict=True):
        for label, probability in best:
            assert abs(float(probabilities[model.config.label2id[label]]) - probability) < 1e-4


@torch.no_grad()
def test_a_language_model_gives_the_same_outputs_in_transformers_and_can_be_imported_again(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = GPTConfig(tokenizer.size, context=40, tie=False, **SIZES)
    writer: Any = ALL_JOBS["language-model"].pipeline_class.assemble(shake(build_model(config), 3), {"tokenizer": tokenizer}, {})
    writer.save(tmp_path / "ours")
    export_huggingface(tmp_path / "ours", tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokens, _ = batch(tokenizer.size, [30], 0)
    assert torch.allclose(model(tokens).logits, writer.model.project(writer.model.states(tokens)), atol=1e-4)
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert [reader(text).input_ids for text in TEXTS] == tokenizer.encode_batch(TEXTS)

    import_huggingface(tmp_path / "out", tmp_path / "again")
    again = load_pipeline(tmp_path / "again")
    assert again.model.config == config
    assert again.generate(["The fox"], length=12) == writer.generate(["The fox"], length=12)


def test_a_recurrent_model_is_not_exported(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = build_model(RecurrentConfig(tokenizer.size, tokenizer.size, d_model=8))
    ALL_JOBS["translation"].pipeline_class.assemble(model, {"tokenizer": tokenizer}, {}).save(tmp_path / "ours")
    with pytest.raises(HeedfulError, match=r"kind = 'recurrent' \(it has no such model\); train with model.kind=seq2seq"):
        export_huggingface(tmp_path / "ours", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "architecture"),
    [
        ({"positions": "none"}, "BertForSequenceClassification"),
        ({"positions": "sinusoidal"}, "BertForSequenceClassification"),
        ({"attention_kind": "longformer", "global_tokens": 1}, "LongformerForSequenceClassification"),  # listops
        (
            {"attention_kind": "longformer", "global_tokens": 1, "positions": "none"},  # long-recall
            "LongformerForSequenceClassification",
        ),
    ],
)
def test_a_classifier_of_long_texts_gives_the_same_outputs_in_transformers(
    settings: dict[str, Any], architecture: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    config = BertConfig(tokenizer.size, head="sequence", classes=3, max_positions=90, **SIZES, **settings)
    saved("classification", config, {"tokenizer": tokenizer}, {"labels": ["a", "b", "c"], "max_length": 40}, tmp_path / "ours")
    said, proof = export_model(tmp_path / "ours", tmp_path / "out", "huggingface")
    assert said.endswith(f"as a {architecture} of transformers")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize(
    ("settings", "architecture"),
    [
        ({"norm": "pre"}, "Pegasus"),
        ({"norm": "pre", "tie": "target"}, "Pegasus"),
        ({"norm": "pre", "tie": "none", "positions": "learned", "max_positions": 90}, "Blenderbot"),
        ({"norm": "pre", "positions": "none", "decoder_layers": 1}, "Blenderbot"),
    ],
)
def test_a_pre_norm_translator_gives_the_same_translations_in_transformers(
    settings: dict[str, Any], architecture: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    target = tokenizer if settings.get("tie", "all") == "all" else Tokenizer.train("char", TEXTS, 200)
    both = {"tokenizer": tokenizer} if target is tokenizer else {"tokenizer": tokenizer, "target_tokenizer": target}
    config = Seq2SeqConfig(tokenizer.size, target.size, **{**SIZES, **settings})
    saved("translation", config, both, {"max_extra": 3}, tmp_path / "ours")
    said, proof = export_model(tmp_path / "ours", tmp_path / "out", "huggingface")
    assert said.endswith(f"as a {architecture}ForConditionalGeneration of transformers")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize(
    "settings",
    [{"positions": "rotary"}, {"positions": "rotary", "tie": False}, {"positions": "sinusoidal"}, {"positions": "none"}],
)
def test_a_language_model_with_other_positions_gives_the_same_texts_in_transformers(
    settings: dict[str, Any], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    saved(
        "language-model",
        GPTConfig(tokenizer.size, context=20, **SIZES, **settings),
        {"tokenizer": tokenizer},
        {},
        tmp_path / "ours",
    )
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "huggingface")
    assert "20 of 20 outputs identical" in proof
