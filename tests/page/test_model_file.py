"""The file of a model for the browser: exact where it can be, and refused in words where the engine could not run it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from node_engine import ask_engine
from random_models import network_file, random_case

from heedful.errors import HeedfulError
from heedful.models import build_model
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.page.model_file import Numbers, rounded_rows
from heedful.page.runnable import MOST_PARAMETERS, check_runnable
from heedful.page.standalone import standalone_page


def test_every_16_bit_number_arrives(tmp_path: Path) -> None:
    patterns = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = patterns[np.isfinite(patterns)]
    model = build_model(GPTConfig(len(finite), 1, 1, 1, 1, context=1))
    with torch.no_grad():
        model.output_weight.copy_(torch.from_numpy(finite.astype(np.float32))[:, None])
    body = "return model.network.output.weight"
    (found,) = ask_engine(tmp_path, [[body]], network_file(model))
    assert np.array_equal(np.array(found, dtype=np.float32), finite.astype(np.float32))


def test_numbers_too_large_for_16_bits_keep_32(tmp_path: Path) -> None:
    numbers = Numbers(16)
    assert numbers.tensor("w", torch.tensor([1.0, 70_000.0]))["type"] == "float32"
    assert numbers.tensor("w", torch.tensor([1.0, 65_504.0]))["type"] == "float16"
    assert numbers.tensor("empty", torch.zeros(0))["type"] == "float16"


def test_a_row_is_rounded_by_its_own_scale() -> None:
    values = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [1e-3, 2e-3, -1e-3]], dtype=np.float32)
    scales, rounded = rounded_rows(values)
    assert np.allclose(scales[:, None] * rounded, values, atol=np.abs(values).max(1, keepdims=True) / 254 + 1e-12)
    assert rounded.dtype == np.int8


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(HeedfulError, match="w has numbers that are not finite"):
        Numbers(16).tensor("w", torch.tensor([1.0, float("nan")]))


def test_a_file_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    (found,) = ask_engine(tmp_path, [["begin", {}]], b"no model at all")
    assert found.startswith("InputError: this is not a model file")


@pytest.mark.parametrize(
    ("parameters", "kind", "said"), [(MOST_PARAMETERS + 1, "gpt", "at most"), (1, "diffusion", "of kind diffusion")]
)
def test_what_the_engine_cannot_run_is_refused(parameters: int, kind: str, said: str) -> None:
    with pytest.raises(HeedfulError, match=said):
        check_runnable("m", kind, GPTConfig(4), parameters)


def test_every_model_whose_engine_is_tested_can_be_packed() -> None:
    rng = random.Random(3)
    for kind in ("seq2seq", "recurrent", "gpt", "bert", "vit"):
        for _ in range(12):
            check_runnable("m", kind, random_case(rng, kind).model.config, 1)


def test_a_setting_that_the_engine_does_not_know_is_named() -> None:
    check_runnable("m", "seq2seq", Seq2SeqConfig(4, 4), 1)
    other: Any = BertConfig(4, attention_kind="longformer", global_projections=True)
    object.__setattr__(other, "activation", "swish")
    with pytest.raises(HeedfulError, match=r"activation=swish \(it knows .+\) and global_projections=True"):
        check_runnable("m", "bert", other, 1)


@pytest.mark.parametrize(("bits", "most"), [(16, 8_000_000), (8, 4_500_000)])
def test_a_tiny_translator_fits_into_a_file_that_can_be_mailed(bits: int, most: int) -> None:
    model = build_model(Seq2SeqConfig(10_000, 10_000, d_model=128, d_ff=256, heads=4, layers=4, tie="all"))
    assert sum(weight.numel() for weight in model.parameters()) > 2_590_000
    vocabulary = 200_000  # bytes that 10,000 subwords with their merges take, which this file is without
    assert len(standalone_page([network_file(model, bits)])) + vocabulary < most
