"""The cache holds what was appended, in order, whatever its capacity, and moves rows when a beam is reordered."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.nn.cache import MIN_CAPACITY, KeyValueCache


def some(rows: int, length: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 2, length, 3), torch.randn(rows, 2, length, 5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=8))
def test_appending_and_selecting_equals_concatenation_and_indexing(steps: list[tuple[int, list[int] | None]]) -> None:
    cache, rows = KeyValueCache(), 3
    keys, values = some(rows, 0)
    for length, chosen in steps:
        key, value = some(rows, length)
        keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)
        found = cache.append(key, value)
        assert all(torch.equal(one, other) for one, other in zip(found, (keys, values), strict=True))
        if chosen is not None:
            index = torch.tensor([row % rows for row in chosen])
            cache.select(index)
            keys, values, rows = keys[index], values[index], len(index)
        assert cache.length == keys.size(2)
        assert all(torch.equal(one, other) for one, other in zip(cache.contents(), (keys, values), strict=True))


def test_new_positions_are_written_in_place_until_the_capacity_doubles() -> None:
    cache = KeyValueCache()
    buffers = []
    for _ in range(200):
        key, _ = cache.append(*some(2, 1))
        buffers.append(key.data_ptr())
    changes = sum(one != other for one, other in pairwise(buffers))
    assert changes <= 5  # 16, 34, 70, 142, 286 positions
    assert cache.buffers[0].size(2) >= MIN_CAPACITY


def test_appending_never_changes_what_was_returned_before() -> None:
    cache = KeyValueCache()
    first = cache.append(*some(2, 4))
    copies = [part.clone() for part in first]
    for _ in range(40):
        cache.append(*some(2, 1))
    assert all(torch.equal(one, other) for one, other in zip(first, copies, strict=True))


def test_an_empty_cache_selects_nothing() -> None:
    cache = KeyValueCache()
    cache.select(torch.tensor([1, 0]))
    assert cache.length == 0


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=12))
def test_a_window_keeps_only_its_last_positions(keeps: int, steps: list[tuple[int, bool]]) -> None:
    cache = KeyValueCache()
    keys, values = some(2, 0)
    for length, swapped in steps:
        key, value = some(2, length)
        keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)
        found = cache.append(key, value, keeps)
        for one, whole in zip(found, (keys, values), strict=True):
            assert one.size(2) == min(whole.size(2), keeps + length)
            assert torch.equal(one, whole[:, :, whole.size(2) - one.size(2) :])
        assert cache.length == cache.position() == keys.size(2)
        if swapped:
            cache.select(torch.tensor([1, 0]))
            keys, values = keys.flip(0), values.flip(0)


def test_the_memory_of_a_window_does_not_grow() -> None:
    cache = KeyValueCache()
    cache.append(*some(2, 500), 20)  # a long prompt, whose memory is given back
    for _ in range(300):
        cache.append(*some(2, 1), 20)
        assert sum(buffer.size(2) for buffer in cache.buffers) <= 2 * (2 * 20 + MIN_CAPACITY)
    assert cache.length == 800
