"""The variance of every matrix of every model is that of the chosen initialisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from heedful.models.bert import Bert, BertConfig
from heedful.models.gpt import GPT, GPTConfig
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.vit import ViT, ViTConfig
from heedful.nn.initialisation import Init

SIZES: dict[str, Any] = {"layers": 1, "d_model": 96, "d_ff": 160, "heads": 4}
KINDS = get_args(Init)
# Parameters that hold several matrices, and how many.
STACKED = {"self_attention.project_in.weight": 3, "cross_attention.project_in.weight": 3}


def built(name: str, init: Init) -> torch.nn.Module:
    torch.manual_seed(0)
    if name == "seq2seq":
        return Seq2Seq(Seq2SeqConfig(300, 300, **SIZES, init=init))
    if name == "recurrent":
        return Recurrent(RecurrentConfig(300, 300, d_model=96, init=init))
    if name == "gpt":
        return GPT(GPTConfig(300, **SIZES, context=64, init=init))
    if name == "bert":
        return Bert(BertConfig(300, **SIZES, max_positions=64, init=init))
    return ViT(ViTConfig(10, **SIZES, image_size=32, patch=4, init=init))


def wanted_variance(matrix: Tensor, init: str) -> float:
    into, out_of = matrix.size(1), matrix.size(0)
    family = init.split("-")[0]
    return {"xavier": 2 / (into + out_of), "lecun": 1 / into, "he": 2 / into, "normal": 0.02**2}[family]


def matrices(model: torch.nn.Module) -> Sequence[tuple[str, Tensor]]:
    """Every matrix with at least 2,000 numbers, of which a variance can be judged."""
    found = []
    for name, parameter in model.named_parameters():
        parts = next((count for ending, count in STACKED.items() if name.endswith(ending)), 1)
        if "cells" in name and parameter.dim() > 1:
            parts = parameter.size(0) // parameter.size(1) if "hh" in name else 1
        if ".first." in name:
            parts = parameter.size(0) // parameter.size(1)
        if parameter.dim() == 2:
            found += [(name, part.detach()) for part in parameter.chunk(parts) if part.numel() >= 2000]
    return found


@pytest.mark.parametrize("init", KINDS)
@pytest.mark.parametrize("name", ["seq2seq", "gpt", "bert", "vit"])
def test_every_matrix_has_the_variance_of_its_initialisation(name: str, init: Init) -> None:
    found = matrices(built(name, init))
    assert len(found) >= 6
    for weight, matrix in found:
        if init == "normal-0.02" and name == "gpt" and weight.endswith("project_out.weight"):
            continue  # smaller, by the number of layers
        wanted = wanted_variance(matrix, init)
        assert float(matrix.var()) == pytest.approx(wanted, rel=0.12), weight
        if init.endswith("uniform"):
            assert float(matrix.abs().max()) <= math.sqrt(3 * wanted) * 1.0001
            assert float(matrix.abs().max()) > math.sqrt(3 * wanted) * 0.95
        else:
            assert float(matrix.abs().max()) > math.sqrt(wanted) * 2.5


@pytest.mark.parametrize("init", KINDS)
def test_every_gate_of_a_recurrent_model_has_it_too(init: Init) -> None:
    model = built("recurrent", init)
    for name, parameter in model.named_parameters():
        if "weight_hh" in name or "weight_ih" in name:
            width = parameter.size(0) // 3
            for gate in parameter.detach().split(width):
                assert float(gate.var()) == pytest.approx(wanted_variance(gate, init), rel=0.15), name


@pytest.mark.parametrize("init", KINDS)
@pytest.mark.parametrize("name", ["seq2seq", "recurrent", "gpt", "bert", "vit"])
def test_biases_start_at_zero_and_norms_at_one(name: str, init: Init) -> None:
    model = built(name, init)
    for part, parameter in model.named_parameters():
        if part.endswith("norm.weight"):
            assert bool((parameter == 1).all())
        elif part.endswith("bias"):
            assert not bool(parameter.any())


def test_larger_embeddings_stay_as_they_were_asked_for() -> None:
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(300, 300, **SIZES, embedding_start="normal", init="he-normal"))
    assert float(model.output_weight.detach().std()) == pytest.approx(96**-0.5, rel=0.05)
    layer: Any = model.encoder.layers[0]
    assert float(layer.feed_forward.project_in.weight.detach().var()) == pytest.approx(2 / 96, rel=0.1)
