"""Reformer equals full attention with one bucket, and attention under its explicit counts otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor
from torch import Tensor

from heedful.nn.attention.full import scaled_dot_product_attention
from heedful.nn.attention.reformer import ReformerAttention
from heedful.nn.fast import pieces
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.positions import LinearBias, PositionBias, RelativePositions

BIASES: list[PositionBias | None] = [None, LinearBias(2), RelativePositions(4, 3)]


@pytest.fixture(autouse=True, scope="module")
def short_pieces() -> Iterator[None]:
    """Of the short inputs here, some are one piece and some are several."""
    usual, pieces.PIECE_SCORES = pieces.PIECE_SCORES, 200
    yield
    pieces.PIECE_SCORES = usual


def shared_heads(length: int, rows: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, the keys that belong to them, and values."""
    torch.manual_seed(0)
    query = torch.randn(rows, 2, length, 4, requires_grad=True)
    return query, F.normalize(query, dim=-1) * 2.0, torch.randn(rows, 2, length, 4, requires_grad=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("chunk", [40, 12])
def test_with_one_bucket_it_is_full_attention_to_all_others(causal: bool, rounds: int, chunk: int) -> None:
    """A chunk of 40 covers the whole sequence of 40 tokens; one of 12 covers that of 13."""
    length = 40 if chunk == 40 else 13
    parts = shared_heads(length)
    mask = ~torch.eye(length, dtype=torch.bool)
    if causal:
        mask &= causal_mask(length)
        mask[0, 0] = True  # the first token has no other
    attention = ReformerAttention(1, rounds, chunk)
    buckets = attention.hashes(parts[1], None)
    in_order = attention._in_order(*parts, buckets, None, causal, None, 0.0)  # the fast way, which shorter inputs do not take
    expected = scaled_dot_product_attention(*parts, mask=mask)[0]
    torch.testing.assert_close(attention(*parts, causal=causal).heads, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(in_order, expected, atol=1e-5, rtol=0)
    assert torch.equal(attention.counts(buckets, length, causal, None)[0, 0] > 0, mask)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 50),
    st.booleans(),
    st.sampled_from(BIASES),
    st.sampled_from(["none", "right", "any"]),
)
def test_it_equals_attention_under_its_counts(
    buckets: int, rounds: int, chunk: int, length: int, causal: bool, bias: PositionBias | None, masked: str
) -> None:
    parts = shared_heads(length)
    mask = None
    if masked != "none":
        mask = padding_mask(torch.tensor([length, length // 2]), length) if masked == "right" else torch.rand(2, length) < 0.7
    attention = ReformerAttention(buckets, rounds, chunk)
    options: dict[str, Any] = {"causal": causal, "bias": bias, "key_mask": mask}
    found = attention(*parts, **options).heads
    counts = attention.counts(attention.hashes(parts[1], mask), length, causal, mask)
    added = counts.float().log().masked_fill(counts == 0, 0.0)
    if bias is not None:
        added = added + bias.dense_bias(parts[0], length, 0)
    expected = scaled_dot_product_attention(*parts, counts > 0, added)[0]
    real = torch.ones(2, length, dtype=torch.bool) if mask is None else mask
    chosen = real[:, None, :, None].expand_as(found)
    torch.testing.assert_close(found[chosen], expected[chosen], atol=1e-5, rtol=0)
    wanted = torch.randn_like(found)
    learned = [parts[0], parts[2], *(bias.parameters() if bias else [])]
    for one, other in zip(
        torch.autograd.grad((found * wanted)[chosen].sum(), learned, retain_graph=True),
        torch.autograd.grad((expected * wanted)[chosen].sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 8]), st.integers(1, 5), st.integers(2, 40), st.data())
@torch.no_grad()
def test_the_future_and_padding_change_nothing(buckets: int, chunk: int, length: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, length - 1))
    query, key, value = shared_heads(length)
    attention = ReformerAttention(buckets, 2, chunk)
    whole = attention(query, key, value, causal=True).heads
    begin = attention(query[:, :, :at], key[:, :, :at], value[:, :, :at], causal=True).heads
    torch.testing.assert_close(whole[:, :, :at], begin, atol=1e-5, rtol=0)
    alone = attention(query[:, :, :at], key[:, :, :at], value[:, :, :at]).heads
    padded = attention(query, key, value, key_mask=padding_mask(torch.tensor([at, at]), length)).heads
    torch.testing.assert_close(padded[:, :, :at], alone, atol=1e-5, rtol=0)


def test_hashing_depends_on_the_seed_and_the_layer_alone() -> None:
    key = shared_heads(30)[1]

    def buckets(seed: int, layer: int) -> Tensor:
        torch.manual_seed(torch.randint(1000, ()).item())
        return ReformerAttention(8, 2, 4, seed, layer).hashes(key, None)

    assert torch.equal(buckets(1, 0), buckets(1, 0))
    assert not torch.equal(buckets(1, 0), buckets(1, 1))
    assert not torch.equal(buckets(1, 0), buckets(2, 0))


def test_similar_tokens_are_more_often_in_one_bucket() -> None:
    torch.manual_seed(0)
    key = torch.randn(1, 2, 400, 16)
    hashes = ReformerAttention(8, 8, 4).hashes(key, None)  # (1, 2, 8, 400)
    together = (hashes[..., :, None] == hashes[..., None, :]).float().mean(2)  # (1, 2, 400, 400)
    unit = F.normalize(key, dim=-1)
    cosine = unit @ unit.transpose(-1, -2)
    near = (cosine > 0.5) & (cosine < 0.999)
    assert float(together[near].mean()) > 2 * float(together[cosine < 0].mean())


def test_no_tensor_grows_with_the_square_of_the_length() -> None:
    parts = [part.detach().requires_grad_() for part in shared_heads(2048, rows=1)]
    with LargestTensor() as largest:
        ReformerAttention(16, 2, 32)(*parts, bias=LinearBias(2), causal=True).heads.sum().backward()
    assert 0 < largest.numbers < 2048**2 / 4
    assert not math.isnan(float(parts[0].grad.sum()))  # type: ignore[union-attr]
