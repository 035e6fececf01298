"""Pooling: masked positions have no influence, and each kind is what its name says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful.nn.masks import padding_mask
from heedful.nn.pooling import AttentionPooling, class_scores, first_token, mean_pooling

D, H = 16, 4


def attention_pooling(queries: int = 3) -> AttentionPooling:
    """One with biases and queries large enough to matter."""
    torch.manual_seed(1)
    pooling = AttentionPooling(D, H, queries)
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return pooling


POOLINGS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "cls": lambda states, mask: first_token(states),
    "mean": mean_pooling,
    "attention": attention_pooling(),
}


@pytest.mark.parametrize("kind", POOLINGS)
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3), st.floats(-1e3, 1e3))
@torch.no_grad()
def test_a_masked_position_never_matters(kind: str, lengths: list[int], more: int, filler: float) -> None:
    pool = POOLINGS[kind]
    torch.manual_seed(0)
    longest = max(lengths) + more
    mask = padding_mask(torch.tensor(lengths), longest)
    states = torch.randn(len(lengths), longest, D).masked_fill(~mask[:, :, None], filler)
    found = pool(states, mask)
    for row, length in enumerate(lengths):
        alone = pool(states[row : row + 1, :length], None)[0]
        assert torch.allclose(found[row], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["mean", "attention"])
def test_the_order_of_the_states_never_matters(kind: str) -> None:
    states = torch.randn(2, 6, D)
    again = POOLINGS[kind](states[:, torch.randperm(6)], None)
    assert torch.allclose(again, POOLINGS[kind](states, None), atol=1e-5)


@pytest.mark.parametrize("kind", POOLINGS)
def test_a_sequence_with_nothing_real_pools_to_something_finite(kind: str) -> None:
    states, mask = torch.randn(2, 4, D), torch.tensor([[True] * 4, [False] * 4])
    assert bool(POOLINGS[kind](states, mask).isfinite().all())


def test_the_mean_is_over_real_positions_alone() -> None:
    states = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]]])
    assert mean_pooling(states, torch.tensor([[1, 1, 0]])).tolist() == [[2.0, 4.0]]
    assert mean_pooling(states[:, :2]).tolist() == [[2.0, 4.0]]
    assert mean_pooling(states, torch.tensor([[0, 0, 0]])).tolist() == [[0.0, 0.0]]


def test_each_query_attends_on_its_own() -> None:
    pooling, states = attention_pooling(3), torch.randn(2, 5, D)
    before = pooling(states)
    assert before.shape == (2, 3, D)
    with torch.no_grad():
        pooling.queries[1] += 1.0
    after = pooling(states)
    assert torch.allclose(before[:, [0, 2]], after[:, [0, 2]], atol=1e-6)
    assert not torch.allclose(before[:, 1], after[:, 1], atol=1e-3)


def test_attention_pooling_equals_pytorchs_cross_attention() -> None:
    pooling = attention_pooling(2)
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(pooling.attention.project_in.weight)
        theirs.in_proj_bias.copy_(pooling.attention.project_in.bias)
    theirs.out_proj.load_state_dict(pooling.attention.project_out.state_dict())
    states, mask = torch.randn(3, 5, D), padding_mask(torch.tensor([5, 2, 4]))
    expected, _ = theirs(pooling.queries.expand(3, -1, -1), states, states, key_padding_mask=~mask)
    assert torch.allclose(pooling(states, mask), expected, atol=1e-5)


def test_fresh_queries_attend_about_equally_to_all() -> None:
    torch.manual_seed(0)
    pooling = AttentionPooling(D, H)
    _, found = pooling(torch.randn(2, 5, D), return_weights=True)
    assert torch.allclose(found.weights, torch.full((2, H, 1, 5), 0.2), atol=0.05)


def test_a_class_with_a_vector_of_its_own_is_scored_by_that_vector_alone() -> None:
    linear = nn.Linear(D, 3)
    one, each = torch.randn(2, D), torch.randn(2, 3, D)
    assert torch.equal(class_scores(one, linear), linear(one))
    expected = torch.stack([linear(each[:, c])[:, c] for c in range(3)], dim=1)
    assert torch.allclose(class_scores(each, linear), expected, atol=1e-6)
    assert torch.allclose(class_scores(one[:, None].expand(-1, 3, -1), linear), linear(one), atol=1e-6)
