"""Linformer: an identity projection is full attention, padding changes nothing, and there is no causal form."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.nn.attention.full import FullAttention
from heedful.nn.attention.linformer import LinformerAttention
from heedful.nn.masks import padding_mask
from heedful.nn.positions import LinearBias, PositionBias, RelativePositions

BIASES: list[PositionBias | None] = [None, LinearBias(2), RelativePositions(4, 3)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(0, 5), st.sampled_from(BIASES), st.data())
def test_an_identity_projection_is_full_attention(length: int, more: int, bias: PositionBias | None, data: st.DataObject) -> None:
    torch.manual_seed(0)
    attention = LinformerAttention(length + more, length + more)
    for matrix in (attention.project_keys, attention.project_values):
        torch.nn.init.eye_(matrix)
    parts = [torch.randn(2, 2, length, 4, requires_grad=True) for _ in range(3)]
    mask = padding_mask(torch.tensor([length, data.draw(st.integers(1, length))]), length)
    for key_mask in (None, mask):
        found = attention(*parts, key_mask=key_mask, bias=bias).heads
        expected = FullAttention()(*parts, key_mask=key_mask, bias=bias).heads
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        for one, other in zip(
            torch.autograd.grad(found.square().sum(), parts), torch.autograd.grad(expected.square().sum(), parts), strict=True
        ):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 10), st.integers(1, 12), st.sampled_from(BIASES))
@torch.no_grad()
def test_padding_never_changes_the_heads(length: int, more: int, projected: int, bias: PositionBias | None) -> None:
    torch.manual_seed(0)
    attention = LinformerAttention(projected, 40)
    parts = [torch.randn(1, 2, length + more, 4) for _ in range(3)]
    alone = attention(*(part[:, :, :length] for part in parts), bias=bias).heads
    padded = attention(*parts, key_mask=padding_mask(torch.tensor([length]), length + more), bias=bias).heads
    torch.testing.assert_close(padded[:, :, :length], alone, atol=1e-5, rtol=0)


def test_each_row_of_weights_is_a_share_of_real_tokens_and_asking_changes_nothing() -> None:
    torch.manual_seed(0)
    attention = LinformerAttention(5, 30)
    parts = [torch.randn(2, 2, 20, 4) for _ in range(3)]
    mask = padding_mask(torch.tensor([20, 7]), 20)
    plain, traced = attention(*parts, key_mask=mask), attention(*parts, key_mask=mask, return_weights=True)
    torch.testing.assert_close(plain.heads, traced.heads, atol=1e-5, rtol=0)
    torch.testing.assert_close(traced.weights.weights.sum(-1), torch.ones(2, 2, 20))
    assert not bool(traced.weights.weights[1, :, :, 7:].any())


def test_a_causal_linformer_is_refused_with_the_reason() -> None:
    with pytest.raises(NotImplementedError, match="later ones too"):
        LinformerAttention(4, 8)(*(torch.randn(1, 1, 8, 4) for _ in range(3)), causal=True)
