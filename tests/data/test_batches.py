"""Batches: every pair once, within the budget, in an order that depends only on seed and epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conftest import real_data
from heedful.data.batches import POOL, Position, Prefetch, batches_from, plan_epoch
from heedful.data.bpe_dropout import BpeDropout
from heedful.data.collation import Batch, SpecialIds, collate, special_ids
from heedful.data.drops import Drops
from heedful.data.prepare_pairs import load_prepared, prepare_pairs
from heedful.data.token_store import ParallelStore, write_store
from heedful.jobs.data_settings import PairSettings
from heedful.recipes.settings import TokenizerSettings
from heedful.runtime.screen import Silence
from heedful.text import Tokenizer

BYTES = Tokenizer.train("byte", [], 0)
SPECIAL = SpecialIds(source_pad=0, source_eos=1, target_pad=2, target_bos=3, target_eos=4)
LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60)


def plan(lengths: list[tuple[int, int]], batch_tokens: int, seed: int = 1, epoch: int = 0, most: int = 0) -> list[list[int]]:
    sources, targets = (np.array(side, dtype=np.int32) for side in zip(*lengths, strict=True))
    return [batch.tolist() for batch in plan_epoch(sources, targets, batch_tokens, seed, epoch, most)]


def rows(*lengths: int) -> list[NDArray[np.uint32]]:
    return [np.arange(10, 10 + length, dtype=np.uint32) for length in lengths]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ParallelStore:
    """97 pairs of lengths from 1 to 20, each identifiable by its number."""
    folder = tmp_path_factory.mktemp("store")
    pairs = [(f"{number:02}" + "s" * (number * 7 % 19), f"{number:02}" + "t" * (number * 5 % 17)) for number in range(97)]
    write_store(folder, pairs, BYTES, BYTES, 100, Drops(), lambda more: None)
    return ParallelStore(folder)


def numbers_of(batch: Batch | None) -> list[int]:
    """The numbers of the pairs in a batch, read from both of their sides."""
    if batch is None:
        return []
    sources = [int(BYTES.decode(row[:2].tolist())) for row in batch.source]
    assert sources == [int(BYTES.decode(row[:2].tolist())) for row in batch.target_out]
    return sources


def stream(
    store: ParallelStore, position: Position, count: int, seed: int = 3, rank: int = 0, world: int = 1
) -> list[tuple[Position, Batch | None]]:
    special = special_ids(BYTES, BYTES)
    return list(islice(batches_from(store, special, 80, seed, position, rank, world), count))


def same(one: Batch | None, other: Batch | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)


@settings(deadline=None)
@given(lengths=LENGTHS, batch_tokens=st.integers(1, 200), seed=st.integers(0, 2**32), epoch=st.integers(0, 1000))
def test_every_pair_occurs_exactly_once_per_epoch(
    lengths: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    batches = plan(lengths, batch_tokens, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@settings(deadline=None)
@given(lengths=LENGTHS, batch_tokens=st.integers(1, 200), seed=st.integers(0, 100))
def test_only_a_single_pair_may_exceed_the_budget(lengths: list[tuple[int, int]], batch_tokens: int, seed: int) -> None:
    for batch in plan(lengths, batch_tokens, seed):
        widest = max(max(lengths[index]) for index in batch) + 1
        assert len(batch) == 1 or widest * len(batch) <= batch_tokens


@settings(deadline=None)
@given(lengths=LENGTHS, batch_tokens=st.integers(1, 200), most=st.integers(1, 9))
def test_a_batch_has_no_more_pairs_than_allowed_and_none_is_lost(
    lengths: list[tuple[int, int]], batch_tokens: int, most: int
) -> None:
    batches = plan(lengths, batch_tokens, most=most)
    assert all(1 <= len(batch) <= most for batch in batches)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))


@settings(deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 100), epoch=st.integers(0, 100))
def test_the_same_seed_and_epoch_give_the_same_plan(lengths: list[tuple[int, int]], seed: int, epoch: int) -> None:
    assert plan(lengths, 50, seed, epoch) == plan(lengths, 50, seed, epoch)


def test_another_seed_or_epoch_gives_another_order() -> None:
    lengths = [(number % 5, number % 3) for number in range(200)]
    plans = [plan(lengths, 60, seed, epoch) for seed in range(4) for epoch in range(4)]
    assert len({str(found) for found in plans}) == 16
    assert len({str(sorted(map(sorted, found))) for found in plans}) == 16  # other batches too, not only their order


def test_the_lengths_of_batches_come_in_random_order() -> None:
    lengths = [(number % 50, number % 50) for number in range(1000)]
    widths = [max(max(lengths[index]) for index in batch) for batch in plan(lengths, 100)]
    rising = sum(a < b for a, b in pairwise(widths)) / len(widths)
    assert 0.3 < rising < 0.7


def test_a_batch_that_spans_two_target_lengths_has_similar_source_lengths() -> None:
    pairs = [(source, target) for target in range(30, 36) for source in range(1, 31)]
    sources, targets = (np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
    ranges, mixed = [], 0
    for batch in plan_epoch(sources, targets, 360, 1, 0):
        mixed += len(set(targets[batch])) > 1
        ranges.append(int(np.ptp(sources[batch])))
    assert mixed > 2
    assert max(ranges) < 12  # of 29


def test_a_corpus_larger_than_a_pool_is_still_covered_once() -> None:
    count = POOL + 1000
    lengths = np.random.default_rng(0).integers(1, 50, count, dtype=np.int32)
    batches = list(plan_epoch(lengths, lengths[::-1], 1 << 16, 1, 0))
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(count))
    assert POOL in np.cumsum([len(batch) for batch in batches])  # each pool is finished before the next


def test_a_batch_is_framed_padded_and_masked() -> None:
    batch = collate(rows(2, 3), rows(3, 1), SPECIAL)
    assert batch.source.tolist() == [[10, 11, 1, 0], [10, 11, 12, 1]]
    assert batch.source_mask.tolist() == [[True, True, True, False], [True] * 4]
    assert batch.target_in.tolist() == [[3, 10, 11, 12], [3, 10, 2, 2]]
    assert batch.target_out.tolist() == [[10, 11, 12, 4], [10, 4, 2, 2]]
    assert batch.target_mask.tolist() == [[True] * 4, [True, True, False, False]]


def test_an_empty_row_has_only_its_special_tokens() -> None:
    batch = collate(rows(0), rows(0), SPECIAL)
    assert batch.source.tolist() == [[1]]
    assert (batch.target_in.tolist(), batch.target_out.tolist(), batch.target_mask.tolist()) == ([[3]], [[4]], [[True]])


@settings(deadline=None, max_examples=40)
@given(lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_the_mask_is_true_exactly_where_tokens_are(lengths: list[tuple[int, int]]) -> None:
    batch = collate(rows(*(left for left, _ in lengths)), rows(*(right for _, right in lengths)), SPECIAL)
    assert batch.source_mask.sum(1).tolist() == [left + 1 for left, _ in lengths]
    assert batch.target_mask.sum(1).tolist() == [right + 1 for _, right in lengths]
    assert torch.equal(batch.source_mask, batch.source != SPECIAL.source_pad)
    assert torch.equal(batch.target_mask, batch.target_in != SPECIAL.target_pad)
    assert torch.equal(batch.target_mask, batch.target_out != SPECIAL.target_pad)


def test_moving_a_batch_keeps_its_parts(store: ParallelStore) -> None:
    batch = stream(store, Position(), 1)[0][1]
    assert batch is not None
    assert same(batch.to(torch.device("cpu")), batch)
    assert batch.to(torch.device("meta")).target_mask.device.type == "meta"


@settings(deadline=None)
@given(lengths=LENGTHS, positions=st.integers(1, 3000))
def test_the_pieces_of_a_batch_add_up_to_it_and_have_about_the_requested_size(
    lengths: list[tuple[int, int]], positions: int
) -> None:
    sources, targets = zip(*lengths, strict=True)
    batch = collate(rows(*sources), rows(*targets), SPECIAL)
    pieces = batch.pieces(positions)
    for name in Batch.__dataclass_fields__:
        assert torch.equal(torch.cat([getattr(piece, name) for piece in pieces]), getattr(batch, name))
    most = 1.5 * positions + batch.source.size(1)  # an example is never cut
    assert all(piece.source.numel() <= most for piece in pieces)
    if len(pieces) > 1:
        assert batch.source.numel() >= 1.5 * positions


def test_the_stream_continues_with_the_next_epoch(store: ParallelStore) -> None:
    length = len(list(plan_epoch(store.source.lengths, store.target.lengths, 80, 3, 0)))
    taken = stream(store, Position(), length)
    assert [position for position, _ in taken] == [Position(0, number) for number in range(1, length + 1)]
    assert sorted(number for _, batch in taken for number in numbers_of(batch)) == list(range(97))
    after = stream(store, Position(), length + 1)[-1][0]
    assert after == Position(1, 1)


@pytest.mark.parametrize("world", [2, 3, 5])
def test_the_shares_of_all_processes_are_disjoint_and_together_the_batch(store: ParallelStore, world: int) -> None:
    whole = stream(store, Position(), 60)
    shares = [stream(store, Position(), 60, rank=rank, world=world) for rank in range(world)]
    for number, (position, batch) in enumerate(whole):
        assert all(share[number][0] == position for share in shares)
        dealt = [pair for share in shares for pair in numbers_of(share[number][1])]
        assert len(set(dealt)) == len(dealt)
        assert sorted(dealt) == sorted(numbers_of(batch))


def test_a_share_may_be_empty(store: ParallelStore) -> None:
    last = stream(store, Position(), 10, rank=90, world=91)
    assert all(batch is None for _, batch in last)


@pytest.mark.parametrize(("rank", "world"), [(0, 1), (1, 2)])
def test_resuming_at_any_position_gives_the_same_continuation(store: ParallelStore, rank: int, world: int) -> None:
    whole = stream(store, Position(), 75, rank=rank, world=world)
    assert whole[-1][0].epoch >= 2
    for done in range(70):
        resumed = stream(store, whole[done][0], 4, rank=rank, world=world)
        for (position, batch), (expected, other) in zip(resumed, whole[done + 1 :], strict=False):
            assert position == expected
            assert same(batch, other)


def test_prefetch_keeps_the_order() -> None:
    items = Prefetch(iter(range(100)), ahead=3)
    assert list(items) == list(range(100))
    items.close()


def test_prefetch_stays_at_its_end() -> None:
    items = Prefetch(iter([1]))
    assert next(items) == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(items)


def test_prefetch_raises_an_error_only_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third is broken")

    items = Prefetch(failing())
    assert [next(items), next(items)] == [1, 2]
    for _ in range(2):
        with pytest.raises(ValueError, match="the third is broken"):
            next(items)
    items.close()


def test_prefetch_reads_ahead_but_not_far() -> None:
    taken: list[int] = []

    def counting() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    items = Prefetch(counting(), ahead=4)
    assert next(items) == 0
    patience = time.monotonic() + 10
    while len(taken) < 6 and time.monotonic() < patience:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(taken) == 6  # one read, four in the queue, one waiting to be put there
    items.close()


@pytest.mark.parametrize("taken", [0, 3])
def test_closing_prefetch_stops_its_thread_and_its_iteration(taken: int) -> None:
    items = Prefetch(iter(range(10**9)), ahead=2)
    assert list(islice(items, taken)) == list(range(taken))
    items.close()
    items.close()
    assert not items.thread.is_alive()
    with pytest.raises(StopIteration):
        next(items)


def test_prefetch_measures_how_long_its_consumer_waited() -> None:
    items = Prefetch(iter([1]))
    assert items.waited == 0.0
    next(items)
    assert items.waited > 0.0
    items.close()


def test_padding_of_real_text_is_under_a_tenth(tmp_path: Path) -> None:
    text = real_data("multi30k") / "raw"
    data = PairSettings(
        source=str(text / "train.de.gz"),
        target=str(text / "train.en.gz"),
        valid_source=str(text / "val.de.gz"),
        valid_target=str(text / "val.en.gz"),
    )
    prepare_pairs(data, TokenizerSettings(kind="bpe", size=8000), 1, tmp_path / "data", Silence())
    prepared = load_prepared(tmp_path / "data")
    assert len(prepared.train) == 29_000
    assert len(prepared.valid) == 1014
    special = special_ids(prepared.source_tokenizer, prepared.target_tokenizer)
    stream = batches_from(prepared.train, special, 4096, 1, Position())
    epoch = [batch for _, batch in takewhile(lambda entry: entry[0].epoch == 0, stream) if batch is not None]
    assert max(batch.source.numel() for batch in epoch) <= 4096
    assert max(batch.target_in.numel() for batch in epoch) <= 4096
    assert sum(len(batch.source) for batch in epoch) == 29_000
    masks = [mask for batch in epoch for mask in (batch.source_mask, batch.target_mask)]
    real, total = sum(int(mask.sum()) for mask in masks), sum(mask.numel() for mask in masks)
    assert 1 - real / total < 0.10


SENTENCES = ["ein haus am see", "zwei häuser am see", "das haus ist klein", "die see ist groß"]


@pytest.fixture(scope="module")
def merging() -> Tokenizer:
    """A tokenizer with a token for each whole word."""
    return Tokenizer.train("bpe", SENTENCES * 4, 300)


@given(st.floats(0.0, 0.99), st.integers(0, 9), st.integers(0, 9))
def test_bpe_dropout_segments_the_same_text_differently(merging: Tokenizer, probability: float, epoch: int, index: int) -> None:
    dropout = BpeDropout(probability, 1, (merging.halves(), merging.halves()))
    for side, text in enumerate(SENTENCES[:2]):
        ids = np.array(merging.encode(text), dtype=np.uint32)
        split = dropout.split(ids, side, epoch, index)
        assert merging.decode(split.tolist()) == text
        assert len(split) >= len(ids)
        assert np.array_equal(split, dropout.split(ids, side, epoch, index))  # the same on every call
        assert (merging.halves()[merging.encode(text)] >= 0).any()


def test_bpe_dropout_splits_tokens_with_its_probability_and_differently_each_epoch(merging: Tokenizer) -> None:
    halves = merging.halves()
    whole = next(i for i in range(merging.size) if halves[i, 0] >= 0 and (halves[halves[i]] < 0).all())  # of two letters
    row = np.full(2000, whole, dtype=np.uint32)
    dropout = BpeDropout(0.1, 1, (halves, halves))
    lengths = [len(dropout.split(row, 0, epoch, 0)) - 2000 for epoch in range(5)]
    assert all(130 < length < 270 for length in lengths)  # five standard deviations around 200
    assert len(set(lengths)) > 1
    assert np.array_equal(BpeDropout(0.0, 1, (halves, halves)).split(row, 0, 0, 0), row)


def test_batches_with_bpe_dropout_do_not_depend_on_the_number_of_processes(tmp_path: Path, merging: Tokenizer) -> None:
    pairs = [(text, text) for text in SENTENCES]
    write_store(tmp_path, iter(pairs), merging, merging, 100, Drops(), lambda n: None)
    store, special = ParallelStore(tmp_path), special_ids(merging, merging)
    dropout = BpeDropout(0.5, 1, (merging.halves(), merging.halves()))

    def texts(rank: int, world: int) -> list[list[int]]:
        stream = batches_from(store, special, 1000, 1, Position(), rank, world, dropout=dropout)
        batch = next(stream)[1]
        assert batch is not None
        return [row[mask].tolist() for row, mask in zip(batch.source, batch.source_mask, strict=True)]

    assert sorted(texts(0, 1)) == sorted(texts(0, 2) + texts(1, 2))
    assert sorted(texts(0, 1)) != sorted([*merging.encode(text), merging.eos] for text in SENTENCES)
