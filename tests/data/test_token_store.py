"""The token store: every id comes back unchanged, and pairs that are too long are counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.data.token_store import ParallelStore, write_store
from heedful.text import Tokenizer

BYTES = Tokenizer.train("byte", [], 0)


def store_of(folder: Path, pairs: list[Pair], max_length: int = 1000) -> tuple[ParallelStore, Drops, list[int]]:
    drops, progress = Drops(), list[int]()
    kept = write_store(folder, pairs, BYTES, BYTES, max_length, drops, progress.append)
    store = ParallelStore(folder)
    assert kept == len(store)
    return store, drops, progress


def texts_of(store: ParallelStore) -> list[Pair]:
    return [(BYTES.decode(store.source[i].tolist()), BYTES.decode(store.target[i].tolist())) for i in range(len(store))]


@settings(deadline=None, max_examples=50)
@given(pairs=st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=12))
def test_every_pair_comes_back(pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> None:
    store, drops, progress = store_of(tmp_path_factory.mktemp("store"), pairs)
    assert texts_of(store) == pairs
    assert not drops.counts
    assert sum(progress) == len(pairs)


def test_lengths_and_ids_agree(tmp_path: Path) -> None:
    store, _, _ = store_of(tmp_path, [("abc", "d"), ("", "ef"), ("ghij", "")])
    assert store.source.lengths.tolist() == [3, 0, 4]
    assert store.target.lengths.tolist() == [1, 2, 0]
    assert [len(store.source[i]) for i in range(3)] == [3, 0, 4]
    assert store.source[0].tolist() == BYTES.encode("abc")


def test_the_ids_are_memory_mapped_and_read_only(tmp_path: Path) -> None:
    store, _, _ = store_of(tmp_path, [("abc", "d")])
    for side in (store.source, store.target):
        assert isinstance(side.ids, np.memmap)
        assert not side[0].flags.writeable
        assert not side.ids.flags.writeable


@settings(deadline=None, max_examples=50)
@given(lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12), longest=st.integers(1, 8))
def test_pairs_too_long_on_either_side_are_dropped_and_counted(
    lengths: list[tuple[int, int]], longest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pairs = [("s" * left, "t" * right) for left, right in lengths]
    store, drops, _ = store_of(tmp_path_factory.mktemp("store"), pairs, longest)
    fitting = [pair for pair in pairs if max(map(len, pair)) <= longest]
    assert texts_of(store) == fitting
    assert sum(drops.counts.values()) == len(pairs) - len(fitting)


def test_the_first_pair_that_is_too_long_is_named(tmp_path: Path) -> None:
    _, drops, _ = store_of(tmp_path, [("ab", "c"), ("abcdef", "d"), ("a", "abcdefg")], 5)
    assert drops.describe() == "2 dropped: 2 longer than 5 tokens (first: the pair that begins “abcdef”)"


def test_cut_truncates_a_long_source_but_never_a_target(tmp_path: Path) -> None:
    drops = Drops()
    pairs = [("abcdefgh", "ok"), ("abc", "too long a target"), ("xyz", "12345")]
    assert write_store(tmp_path, pairs, BYTES, BYTES, 5, drops, lambda more: None, cut=True) == 2
    assert texts_of(ParallelStore(tmp_path)) == [("abcde", "ok"), ("xyz", "12345")]
    assert drops.counts == {"longer than 5 tokens": 1}


def test_more_pairs_than_one_tokenising_batch_keep_their_order(tmp_path: Path) -> None:
    pairs = [(f"source {number}", f"target {number}") for number in range(9000)]
    store, _, progress = store_of(tmp_path, pairs)
    assert texts_of(store) == pairs
    assert progress == [4096, 4096, 808]


def test_each_side_has_its_own_tokenizer(tmp_path: Path) -> None:
    characters = Tokenizer.train("char", ["äöü"], 20)
    write_store(tmp_path, [("äöü", "äöü")], characters, BYTES, 100, Drops(), lambda more: None)
    store = ParallelStore(tmp_path)
    assert store.source.lengths.tolist() == [3]
    assert store.target.lengths.tolist() == [6]
