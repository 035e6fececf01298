"""Positions of every kind: their formulas, what they depend on, and decoding step by step against all at once."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
import torch

from heedful.models.seq2seq import make_model
from heedful.nn.cache import KeyValueCache
from heedful.nn.masks import padding_mask
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import (
    LearnedPositions,
    LinearBias,
    PositionBias,
    PositionKind,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)

POSITIONS = get_args(PositionKind)


def by_formula(positions: int, d_model: int) -> np.ndarray:
    """The formula of Section 3.5 in double precision."""
    table = np.empty((positions, d_model))
    at = np.arange(positions, dtype=np.float64)
    for feature in range(d_model):
        angle = at / 10000.0 ** (2 * (feature // 2) / d_model)
        table[:, feature] = np.sin(angle) if feature % 2 == 0 else np.cos(angle)
    return table


@pytest.mark.parametrize("d_model", [2, 16, 33, 512])
def test_sinusoids_follow_the_formula_at_any_length(d_model: int) -> None:
    positions = SinusoidalPositions(d_model)
    expected = by_formula(10_050, d_model)
    assert np.abs(positions(100).numpy() - expected[:100]).max() < 1e-6
    assert np.abs(positions(50, start=10_000).numpy() - expected[10_000:]).max() < 1e-6  # far beyond anything seen
    assert np.abs(positions(10_050).numpy() - expected).max() < 1e-6
    assert positions(7, start=3).shape == (7, d_model)


def test_the_value_of_a_position_never_depends_on_the_length_asked_for() -> None:
    positions = SinusoidalPositions(64)
    before = positions(200).clone()
    positions(5000)
    assert torch.equal(positions(200), before)
    assert torch.equal(positions(10, start=150), before[150:160])


@pytest.mark.parametrize("offset", [1, 7, 100])
def test_a_fixed_offset_is_one_linear_map_for_all_positions(offset: int) -> None:
    table = SinusoidalPositions(32)(1200)
    turn = torch.zeros(32, 32)
    for pair in range(16):  # sin(a + b) = sin a cos b + cos a sin b; cos(a + b) = cos a cos b − sin a sin b
        angle = offset / 10000.0 ** (2 * pair / 32)
        sin, cos = math.sin(angle), math.cos(angle)
        turn[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    start = table[: 1200 - offset]
    assert torch.allclose(start @ turn.T, table[offset:], atol=1e-5, rtol=0)


def test_a_model_trains_on_a_length_first_met_while_decoding() -> None:
    torch.manual_seed(0)
    model = make_model(9, 9, 8, layers=1, d_ff=8, heads=1)
    source = torch.randint(0, 9, (1, 400))
    with torch.inference_mode():
        model.encode(source)
    model(source, source).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_learned_positions_beyond_the_last_share_it() -> None:
    positions = LearnedPositions(8, 5)
    out = positions(9)
    assert torch.equal(out[:5], positions.table)
    assert torch.equal(out[5:], positions.table[4].expand(4, 8))
    assert torch.equal(positions(2, start=3), positions.table[3:5])
    assert torch.equal(positions(2, start=70), positions.table[4].expand(2, 8))


def test_a_rotary_product_depends_on_the_distance_alone() -> None:
    torch.manual_seed(1)
    rotary = RotaryPositions(16)
    query, key = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def product(query_at: int, key_at: int) -> float:
        return float((rotary.rotate(query, query_at) * rotary.rotate(key, key_at)).sum())

    for distance in (-3, 0, 1, 10):
        values = [product(key_at + distance, key_at) for key_at in (3, 4, 50, 500)]
        assert max(values) - min(values) < 1e-3
        if distance:
            assert abs(values[0] - product(5, 5)) > 0.05


def test_rotation_preserves_lengths_and_leaves_the_first_position_alone() -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 3, 20, 8)
    rotated = RotaryPositions(8).rotate(x, 0)
    assert torch.allclose(rotated.norm(dim=-1), x.norm(dim=-1), atol=1e-5)
    assert torch.equal(rotated[:, :, 0], x[:, :, 0])
    assert torch.allclose(RotaryPositions(8).rotate(x[:, :, 5:], 5), rotated[:, :, 5:], atol=1e-6)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [(8, [2.0**-i for i in range(1, 9)]), (4, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]), (1, [2.0**-8])],
)
def test_linear_bias_falls_with_the_distance_at_its_heads_slope(heads: int, slopes: list[float]) -> None:
    bias = LinearBias(heads).dense_bias(torch.zeros(1, heads, 4, 2), keys=9, start=5)
    assert bias.shape == (1, heads, 4, 9)
    for head, slope in enumerate(slopes):
        for query in range(4):
            for key in range(9):
                behind = query + 5 - key
                away = behind if behind >= 0 else -1.5 * behind  # keys after the query count 1.5 times their distance
                assert float(bias[0, head, query, key]) == pytest.approx(-slope * away)


@pytest.mark.parametrize(("start", "queries", "keys"), [(0, 8, 8), (5, 2, 7), (0, 3, 9)])
def test_relative_positions_equal_a_slow_loop(start: int, queries: int, keys: int) -> None:
    torch.manual_seed(2)
    relative = RelativePositions(d_k=6, max_distance=3)
    query, key = torch.randn(2, 2, queries, 6), torch.randn(2, 2, keys, 6)
    scores = query @ key.transpose(-2, -1) / math.sqrt(6) + relative.dense_bias(query, keys, start)
    for b in range(2):
        for h in range(2):
            for i in range(queries):
                for j in range(keys):
                    distance = max(-3, min(3, start + i - j))
                    moved = key[b, h, j] + relative.table[distance + 3]
                    expected = (query[b, h, i] @ moved).item() / math.sqrt(6)
                    assert scores[b, h, i, j].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("positions", [LinearBias(2), RelativePositions(d_k=6, max_distance=3)], ids=["linear", "relative"])
@torch.no_grad()
def test_the_bias_of_blocks_is_part_of_the_dense_bias(positions: PositionBias) -> None:
    torch.manual_seed(2)
    query, block, before = torch.randn(3, 2, 12, 6), 4, 2  # three blocks of queries; each sees its own keys and two before
    dense = positions.dense_bias(query, 12, 0).expand(3, 2, 12, 12)
    blocks = query.unflatten(2, (3, block))  # (B, H, 3, 4, K)
    query_at = torch.arange(12).view(3, block, 1)
    key_at = (torch.arange(3) * block - before)[:, None, None] + torch.arange(block + before)  # (3, 1, 6)
    local = positions.bias(blocks, query_at, key_at).expand(3, 2, 3, block, block + before)
    for number in range(3):
        for key in range(block + before):
            if (at := number * block - before + key) >= 0:
                rows = slice(number * block, (number + 1) * block)
                assert torch.allclose(local[:, :, number, :, key], dense[:, :, rows, at], atol=1e-6)


@pytest.mark.parametrize("positions", POSITIONS)
def test_step_by_step_equals_all_at_once(positions: str) -> None:
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"layers": 2, "d_ff": 32, "heads": 4, "max_positions": 6, "max_distance": 3}
    model = make_model(15, 15, 16, positions=positions, **sizes).eval()
    source, target = torch.randint(0, 15, (3, 9)), torch.randint(0, 15, (3, 12))
    mask = padding_mask(torch.tensor([9, 4, 6]))
    with torch.no_grad():
        full = model(source, target, mask)
        one = model.start(source, mask)
        for t in range(12):
            assert one.position == t
            step = model.step(target[:, t : t + 1], one).log_softmax(-1)
            assert torch.allclose(step, full[:, t], atol=1e-5, rtol=0)
        several = model.start(source, mask)  # three tokens, then four, then the rest
        for begin, end in ((0, 3), (3, 7), (7, 12)):
            step = model.step(target[:, begin:end], several).log_softmax(-1)
            assert torch.allclose(step, full[:, end - 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", [kind for kind in POSITIONS if kind != "none"])
def test_order_matters_to_every_kind_of_position_and_not_without(positions: str) -> None:
    torch.manual_seed(4)
    source, order = torch.tensor([[1, 2, 3, 4, 5, 6]]), [2, 0, 1, 5, 3, 4]
    for kind, matters in ((positions, True), ("none", False)):
        model = make_model(15, 15, 16, layers=1, d_ff=32, heads=4, positions=kind).eval()
        usual, shuffled = model.encode(source)[0][:, order], model.encode(source[:, order])[0]
        assert torch.allclose(usual, shuffled, atol=1e-5) != matters


def test_rotary_positions_take_values_of_an_odd_width() -> None:
    """The projection of queries, keys and values is then of odd width, too, and its parts are not aligned in pairs."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(4, 1, d_k=4, d_v=3, positions=RotaryPositions(4))
    x = torch.randn(2, 5, 4)
    whole = attention(x, causal=True)
    cache = KeyValueCache()
    steps = [attention(x[:, i : i + 1], causal=True, cache=cache) for i in range(5)]
    assert torch.allclose(whole, torch.cat(steps, dim=1), atol=1e-6)
