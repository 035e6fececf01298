"""Positions are shown as they are computed: tables by their formulas, and what a distance does."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
import torch

from heedful.errors import UsageError
from heedful.explain.positions import Positions
from heedful.models.bert import Bert, BertConfig
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.vit import ViT, ViTConfig
from heedful.nn.positions import PositionKind, RotaryPositions

KINDS = [kind for kind in get_args(PositionKind) if kind != "none"]


def test_sinusoids_are_those_of_the_paper_and_their_product_depends_on_distance_alone() -> None:
    (view,) = Positions.of_kind("sinusoidal", d_model=8, length=10).views
    assert view.table.shape == (10, 8)
    for position in (0, 3, 9):
        for pair in range(4):
            angle = position / 10000 ** (2 * pair / 8)
            np.testing.assert_allclose(
                view.table[position, 2 * pair : 2 * pair + 2], [math.sin(angle), math.cos(angle)], atol=1e-6
            )
    (curve,) = view.by_distance.values()
    expected = [np.mean([math.cos(d / 10000 ** (2 * pair / 8)) for pair in range(4)]) for d in view.distances]
    np.testing.assert_allclose(curve, expected, atol=1e-5)
    assert view.distances == list(range(-9, 10))


def test_a_rotation_changes_the_product_of_query_and_key_by_their_distance() -> None:
    (view,) = Positions.of_kind("rotary", d_model=16, heads=2, length=6).views
    vector = torch.ones(1, 1, 1, 8)
    rotary = RotaryPositions(8)
    query = rotary.rotate(vector, 2)
    for d in (0, 1, 3):
        key = rotary.rotate(vector, 2 + d)
        product = float((query * key).sum()) / 8
        assert view.by_distance["a vector with itself"][view.distances.index(d)] == pytest.approx(product, abs=1e-5)


def test_linear_biases_are_slopes_times_distance() -> None:
    (view,) = Positions.of_kind("linear-bias", heads=4, length=5).views
    assert list(view.by_distance) == ["head 1", "head 2", "head 3", "head 4"]
    for head, values in enumerate(view.by_distance.values(), 1):
        slope = 2.0 ** (-8 * head / 4)
        np.testing.assert_allclose(values, [-slope * (-d if d <= 0 else 1.5 * d) for d in view.distances], rtol=1e-5)
    np.testing.assert_array_equal(view.table[2], view.by_distance["head 3"])


def test_relative_vectors_stand_by_key_minus_query() -> None:
    config = Seq2SeqConfig(9, 9, layers=2, d_model=8, d_ff=8, heads=2, positions="relative", max_distance=3)
    model: Any = Seq2Seq(config)
    views = Positions.of_model(model).views
    names = [f"relative, {stack} layer {n}" for stack in ("encoder", "decoder") for n in (1, 2)]
    assert [view.name for view in views] == names
    table = model.encoder.layers[1].self_attention.positions.table.detach()
    assert views[1].distances == [-3, -2, -1, 0, 1, 2, 3]
    np.testing.assert_allclose(views[1].table[2], table[3 + 1])  # a key one before the query is at distance 1 behind it
    np.testing.assert_allclose(views[1].by_distance["learned vector"][0], table[6].norm())


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (Seq2Seq(Seq2SeqConfig(9, 9, layers=2, d_model=8, d_ff=8, heads=2)), ["sinusoidal"]),
        (Seq2Seq(Seq2SeqConfig(9, 9, layers=2, d_model=8, d_ff=8, heads=2, positions="rotary")), ["rotary"]),
        (
            Seq2Seq(Seq2SeqConfig(9, 9, layers=1, d_model=8, d_ff=8, heads=2, positions="learned", max_positions=5)),
            ["learned, source embedding", "learned, target embedding"],
        ),
        (Bert(BertConfig(9, layers=1, d_model=8, d_ff=8, heads=2, max_positions=7)), ["learned, embedding"]),
        (ViT(ViTConfig(3, image_size=8, patch=2, layers=1, d_model=8, d_ff=8, heads=2)), ["learned, embedding"]),
    ],
)
def test_the_positions_of_a_model_are_found(model: Any, names: list[str]) -> None:
    found = Positions.of_model(model)
    assert [view.name for view in found.views] == names
    for view in found.views:
        assert view.table.shape == (len(view.row_labels), len(view.column_labels))
        assert all(len(values) == len(view.distances) for values in view.by_distance.values())
    assert len(found.tables()) == len(names)


def test_what_has_no_positions_and_what_does_not_exist_is_told() -> None:
    with pytest.raises(UsageError, match="no positions"):
        Positions.of_model(Recurrent(RecurrentConfig(9, 9, d_model=8)))
    with pytest.raises(UsageError, match="did you mean 'sinusoidal'"):
        Positions.of_kind("sinusoid")
    assert [view.kind for view in Positions.of_kind("all").views] == KINDS
    one, other = (Positions.of_kind("learned").views[0].table for _ in range(2))
    np.testing.assert_array_equal(one, other)  # never trained, but the same every time
