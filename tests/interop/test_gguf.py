"""Language models written as GGUF: read back by transformers, and by llama.cpp where it is installed (`make llama`)."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from interop_models import TEXTS, saved

from heedful.errors import HeedfulError, UsageError
from heedful.interop import gguf as ours
from heedful.interop.export import export_model
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.text import Tokenizer

SIZES: dict[str, Any] = {"layers": 2, "d_model": 32, "d_ff": 128, "heads": 4, "context": 60}  # transformers wants 4 · d_model
VARIANTS: dict[str, dict[str, Any]] = {
    "GPT-2": {},
    "sinusoids, not tied": {"positions": "sinusoidal", "tie": False},
    "no positions": {"positions": "none", "epsilon": 1e-3},
}
LLAMA = pytest.mark.skipif(not (find_spec("llama_cpp") or os.environ.get("HEEDFUL_LLAMA")), reason="make llama")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", TEXTS, 340, tags=["<de>"])


@pytest.mark.parametrize("name", VARIANTS)
def test_transformers_reads_the_same_model_from_the_file(name: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    config = GPTConfig(tokenizer.size, **{**SIZES, **VARIANTS[name]})
    pipeline = saved("language-model", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out", "gguf", check=False)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="out.gguf").eval()
    rows = torch.randint(0, tokenizer.size, (3, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = pipeline.model(rows)
        found = theirs(rows).logits.log_softmax(-1)
    assert torch.allclose(found, expected, atol=1e-4)


def test_the_file_holds_the_vocabulary(tokenizer: Tokenizer, tmp_path: Path) -> None:
    saved("language-model", GPTConfig(tokenizer.size + 3, **SIZES), {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out", "gguf", check=False)
    fields = gguf.GGUFReader(tmp_path / "out.gguf").fields
    names, kinds = (fields[f"tokenizer.ggml.{what}"].contents() for what in ("tokens", "token_type"))
    assert names[: tokenizer.size] == [tokenizer.backend.id_to_token(number) for number in range(tokenizer.size)]
    assert [kinds[names.index(name)] for name in ("</s>", "<de>", "a")] == [ours.CONTROL, ours.USER_DEFINED, ours.NORMAL]
    assert kinds[-3:] == [ours.UNUSED] * 3
    assert fields["tokenizer.ggml.bos_token_id"].contents() == tokenizer.eos  # documents begin after it
    assert fields["tokenizer.ggml.merges"].contents()


@pytest.mark.parametrize("precision", ours.QUANTIZE)
def test_a_lower_precision_is_smaller_and_close(precision: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    pipeline = saved("language-model", GPTConfig(tokenizer.size, **SIZES), {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    for name, quantize in (("whole", None), ("small", precision)):
        export_model(tmp_path / "ours", tmp_path / name, "gguf", quantize, check=False)
    whole, small = ((tmp_path / f"{name}.gguf").stat().st_size for name in ("whole", "small"))
    assert small < 0.8 * whole
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "small.gguf").tensors}["token_embd.weight"]
    values = gguf.quants.dequantize(found.data, found.tensor_type)
    expected = pipeline.model.output_weight.detach().numpy()
    assert np.abs(values - expected).max() < 0.01 * np.abs(expected).max()


def test_what_llama_cpp_cannot_express_is_refused_with_all_its_names(tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = GPTConfig(tokenizer.size, **SIZES, positions="rotary", norm="post", activation="relu")
    words = Tokenizer.train("word", TEXTS, 80)
    saved("language-model", config, {"tokenizer": words}, {}, tmp_path / "ours")
    with pytest.raises(HeedfulError) as error:
        export_model(tmp_path / "ours", tmp_path / "out", "gguf")
    for wanted in ("model.positions=learned", "model.norm=pre", "model.activation=gelu-tanh", "tokenizer.kind=bpe"):
        assert wanted in str(error.value)
    saved(
        "embedding",
        BertConfig(tokenizer.size, layers=1, d_model=16, d_ff=16, heads=2),
        {"tokenizer": tokenizer},
        {},
        tmp_path / "b",
    )
    with pytest.raises(HeedfulError, match="only language-model"):
        export_model(tmp_path / "b", tmp_path / "out", "gguf")
    with pytest.raises(UsageError, match="no precision"):
        export_model(tmp_path / "ours", tmp_path / "out", "gguf", "int16")
    assert not list(tmp_path.glob("out*"))


@LLAMA
@pytest.mark.parametrize("quantize", [None, *ours.QUANTIZE])
@pytest.mark.parametrize("name", VARIANTS)
def test_llama_cpp_writes_the_same_texts(name: str, quantize: str | None, tokenizer: Tokenizer, tmp_path: Path) -> None:
    config = GPTConfig(tokenizer.size, **{**SIZES, **VARIANTS[name]})
    saved("language-model", config, {"tokenizer": tokenizer}, {}, tmp_path / "ours")
    _, proof = export_model(tmp_path / "ours", tmp_path / "out", "gguf", quantize)
    assert "llama.cpp" in proof
    assert quantize or any(f"{number} of 20 outputs identical" in proof for number in (18, 19, 20))  # the others are ties
