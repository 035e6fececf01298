"""Models of every kind written as ONNX and run by ONNX Runtime: the same outputs and the same scores."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interop_models import TEXTS, saved

from heedful.errors import HeedfulError
from heedful.interop.export import export_model
from heedful.interop.onnx import open_session
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.recurrent import RecurrentConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.models.vit import ViTConfig
from heedful.text import Tokenizer

SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm, rotary": {"norm": "pre", "positions": "rotary", "tie": "target"},
    "odd width": {"d_model": 17, "d_k": 6, "d_v": 4, "activation": "silu"},
    "learned positions": {"positions": "learned", "max_positions": 12, "activation": "gelu", "decoder_layers": 1},
    "relative positions": {"positions": "relative", "max_distance": 3, "d_k": 3, "tie": "none"},
    "linear bias": {"positions": "linear-bias", "reads": "mix", "activation": "gelu-tanh"},
    "no positions": {"positions": "none", "reads": "layerwise", "norm": "pre", "scale_embedding": False},
}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "GPT-2": {},
    "rotary": {"positions": "rotary", "tie": False},
    "post-norm": {"norm": "post", "positions": "sinusoidal"},
    "linear bias": {"positions": "linear-bias", "activation": "relu"},
    "relative": {"positions": "relative", "max_distance": 4},
}
BERTS: list[tuple[str, dict[str, Any]]] = [
    ("embedding", {}),
    ("classification", {"head": "sequence", "classes": 3, "pooling": "cls"}),
    ("classification", {"head": "sequence", "classes": 3, "pooling": "mean"}),
    ("classification", {"head": "sequence", "classes": 3, "pooling": "attention"}),
    ("tagging", {"head": "token", "classes": 3}),
    ("bert-pretraining", {"head": "pretraining"}),
]
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "import_export.md"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS, 320, masked=True)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_gives_the_same_translations_in_onnx(name: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, **{**SIZES, **TRANSLATORS[name]})
    saved("translation", config, {"tokenizer": tokenizer}, {"max_extra": 3}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "onnx")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_gives_the_same_texts_in_onnx(name: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = GPTConfig(tokenizer.size, context=20, **{**SIZES, **LANGUAGE_MODELS[name]})
    saved("language-model", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "onnx")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize(("task", "settings"), BERTS)
def test_a_bert_gives_the_same_outputs_in_onnx(task: str, settings: dict[str, Any], tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = BertConfig(tokenizer.size, max_positions=130, epsilon=1e-6, **settings, **SIZES)
    given = {"max_length": 128, **({"labels": ["a", "b", "c"]} if config.classes else {})}
    saved(task, config, {"tokenizer": tokenizer}, given, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "onnx")
    assert "20 of 20 outputs identical" in proof


@pytest.mark.parametrize("pooling", ["cls", "mean", "attention"])
def test_an_image_classifier_gives_the_same_classes_in_onnx(pooling: Any, tmp_path: Path) -> None:
    config = ViTConfig(3, image_size=8, patch=2, channels=1, pooling=pooling, **SIZES)
    saved("image-classification", config, {}, {"labels": ["a", "b", "c"]}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "onnx")
    assert "on made-up images: 20 of 20 outputs identical" in proof


def test_a_language_model_may_read_a_text_at_once_or_bit_by_bit(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = GPTConfig(tokenizer.size, context=40, positions="rotary", **SIZES)
    saved("language-model", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out", "onnx", check=False)
    session = open_session(tmp_path / "out" / "model.onnx")
    tokens = np.random.default_rng(0).integers(0, tokenizer.size, (3, 12))
    names = [output.name for output in session.get_outputs()]
    past = {given.name: np.zeros((3, 4, 0, 4), np.float32) for given in session.get_inputs() if "past" in given.name}
    whole = session.run(["logits"], {**past, "tokens": tokens})[0]
    at = 0
    for count in (5, 1, 4, 2):
        found = dict(zip(names, session.run(names, {**past, "tokens": tokens[:, at : at + count]}), strict=True))
        assert np.allclose(found.pop("logits"), whole[:, at : at + count], atol=1e-5)
        past = {f"past_{name}": value for name, value in found.items()}
        at += count


@pytest.mark.parametrize("kind", ["seq2seq", "gpt", "bert"])
def test_int8_is_smaller_and_still_proved(kind: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    sizes = {**SIZES, "d_model": 64}
    task, config = {
        "seq2seq": ("translation", Seq2SeqConfig(tokenizer.size, tokenizer.size, **sizes)),
        "gpt": ("language-model", GPTConfig(tokenizer.size, context=20, **sizes)),
        "bert": ("embedding", BertConfig(tokenizer.size, max_positions=130, **sizes)),
    }[kind]
    saved(task, config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "float", "onnx", check=False)
    export_model(tmp_path / "ours", tmp_path / "int8", "onnx", "int8", check=False)
    size = {name: sum(path.stat().st_size for path in (tmp_path / name).glob("*.onnx")) for name in ("float", "int8")}
    assert size["int8"] < 0.6 * size["float"]


def test_a_recurrent_model_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = RecurrentConfig(tokenizer.size, tokenizer.size, d_model=8)
    saved("translation", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    with pytest.raises(HeedfulError, match="recurrent"):
        export_model(tmp_path / "ours", tmp_path / "out", "onnx")
    assert not (tmp_path / "out").exists()


def test_the_documented_program_translates_without_pytorch(tokenizer: Tokenizer, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (program,) = [block.partition("\nprint(translate")[0] for block in blocks if "import onnxruntime" in block]
    assert len([line for line in program.splitlines() if line]) <= 30
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, positions="rotary", **SIZES)
    pipeline = saved("translation", config, {"tokenizer": tokenizer}, {"max_extra": 3}, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "onnx", "onnx", check=False)
    block = "import sys\nsys.modules['torch'] = None\n"
    call = f"\nprint([translate(text) for text in {TEXTS!r}], file=open('out.txt', 'w', encoding='utf-8'))\n"
    subprocess.run([sys.executable, "-c", block + program + call], cwd=tmp_path, check=True)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").strip() == str(pipeline.translate(TEXTS, beam=1))
