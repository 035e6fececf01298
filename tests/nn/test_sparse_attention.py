"""Windows, global tokens and random blocks equal full attention under their explicit mask, and never make an L×L matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from largest_tensor import LargestTensor
from torch import Tensor

from heedful.nn.attention.bigbird import BigBirdAttention
from heedful.nn.attention.full import FullAttention, scaled_dot_product_attention
from heedful.nn.attention.longformer import LongformerAttention
from heedful.nn.attention.sparse import Keys, SparseAttention
from heedful.nn.attention.window import WindowAttention
from heedful.nn.fast import pieces
from heedful.nn.masks import padding_mask
from heedful.nn.positions import LinearBias, PositionBias, RelativePositions

TOLERANCE = 1e-5
HEADS, WIDTH = 2, 4
PIECE_SCORES = pieces.PIECE_SCORES


@pytest.fixture(autouse=True, scope="module")
def short_pieces() -> Iterator[None]:
    """Of the short inputs here, some are one piece and some are several."""
    pieces.PIECE_SCORES = 1000
    yield
    pieces.PIECE_SCORES = PIECE_SCORES


def some_heads(length: int, rows: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random query, key and value."""
    torch.manual_seed(seed)
    query, key, value = (torch.randn(rows, HEADS, length, WIDTH, requires_grad=True) for _ in range(3))
    return query, key, value


def small_window(draw: st.DrawFn) -> WindowAttention:
    return WindowAttention(draw(st.integers(1, 9)), draw(st.integers(1, 7)))


def small_longformer(draw: st.DrawFn) -> LongformerAttention:
    return LongformerAttention(draw(st.integers(1, 9)), draw(st.integers(0, 4)), block=draw(st.integers(1, 7)))


def small_bigbird(draw: st.DrawFn) -> BigBirdAttention:
    window, globals_, random = draw(st.integers(1, 6)), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    return BigBirdAttention(
        window, globals_, random, draw(st.integers(1, 4)), draw(st.integers(0, 9)), published=draw(st.booleans())
    )


KINDS = {"window": small_window, "longformer": small_longformer, "bigbird": small_bigbird}


@st.composite
def cases(draw: st.DrawFn) -> tuple[SparseAttention, int, dict[str, Any]]:
    """A kind of attention, a length that is rarely a multiple of its blocks, and arguments."""
    attention: SparseAttention = KINDS[draw(st.sampled_from(sorted(KINDS)))](draw)
    length = draw(st.integers(1, 60))
    bias: PositionBias | None = draw(st.sampled_from([None, LinearBias(HEADS), RelativePositions(WIDTH, 3)]))
    mask = draw(st.sampled_from(["none", "right", "any"]))
    options: dict[str, Any] = {"causal": draw(st.booleans()), "bias": bias, "key_mask": None}
    if isinstance(attention, LongformerAttention) and draw(st.booleans()):
        options["global_mask"] = torch.rand(2, length) < draw(st.sampled_from([0.0, 0.1, 0.5]))
    if mask == "right":
        options["key_mask"] = padding_mask(torch.tensor([length, draw(st.integers(0, length))]), length)
    elif mask == "any":
        options["key_mask"] = torch.rand(2, length) < 0.7
    return attention, length, options


def under_mask(attention: SparseAttention, parts: tuple[Tensor, Tensor, Tensor], options: dict[str, Any]) -> Tensor:
    """Full attention under the explicit mask of the pattern."""
    length, mask = parts[0].size(2), options["key_mask"]
    pattern = attention.pattern(length, Keys(length, options["causal"], mask, chosen=options.get("global_mask")))
    bias = options["bias"]
    added = None if bias is None else bias.dense_bias(parts[0], length, 0)
    if isinstance(attention, BigBirdAttention) and attention.published and length > attention.full_up_to:
        place = torch.arange(length) // attention.block
        boosted = (place >= attention.global_blocks) & (place != place[-1]) | torch.tensor(options["causal"])
        first = (place == 0) * math.log(attention.first_counts) * boosted[:, None]
        added = first if added is None else added + first
    return scaled_dot_product_attention(*parts, pattern, added)[0]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_each_pattern_equals_full_attention_under_its_mask(case: tuple[SparseAttention, int, dict[str, Any]]) -> None:
    attention, length, options = case
    parts = some_heads(length)
    found, expected = attention(*parts, **options).heads, under_mask(attention, parts, options)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    weighted = torch.randn_like(found)
    learned = [*parts, *(options["bias"].parameters() if options["bias"] else [])]
    for one, other in zip(
        torch.autograd.grad((found * weighted).sum(), learned, allow_unused=True),
        torch.autograd.grad((expected * weighted).sum(), learned, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("length", [10, 100])  # one piece, and several
@pytest.mark.parametrize("kind", [WindowAttention(4), LongformerAttention(4), BigBirdAttention(4, block=4)])
def test_the_backward_pass_drops_the_same_weights(kind: SparseAttention, length: int) -> None:
    query, key, value = some_heads(length)
    before = torch.get_rng_state()
    heads = kind(query, key, value, dropout=0.5).heads
    assert not torch.equal(before, torch.get_rng_state())
    weighted = torch.randn_like(heads)
    (grad,) = torch.autograd.grad((heads * weighted).sum(), value)
    # Heads are linear in the values: their gradient times the values is the sum, if both passes drop the same.
    torch.testing.assert_close((grad * value).sum(), (heads * weighted).sum(), atol=1e-3, rtol=1e-5)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_asking_for_weights_never_changes_the_heads(case: tuple[SparseAttention, int, dict[str, Any]]) -> None:
    attention, length, options = case
    parts = some_heads(length)
    plain, traced = attention(*parts, **options), attention(*parts, return_weights=True, **options)
    torch.testing.assert_close(plain.heads, traced.heads, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(traced.weights.weights @ parts[2], traced.heads, atol=TOLERANCE, rtol=0)


@settings(max_examples=50, deadline=None)
@given(cases(), st.data())
@torch.no_grad()
def test_causal_attention_never_sees_the_future(case: tuple[SparseAttention, int, dict[str, Any]], data: st.DataObject) -> None:
    attention, length, options = case
    at = data.draw(st.integers(0, length - 1))
    parts = some_heads(length)
    changed = [part.clone() for part in parts]
    for part in changed[1:]:
        part[:, :, at:] += torch.randn_like(part[:, :, at:])
    options |= {"causal": True}
    before, after = attention(*parts, **options).heads, attention(*changed, **options).heads
    torch.testing.assert_close(before[:, :, :at], after[:, :, :at], atol=1e-6, rtol=0)


@settings(max_examples=50, deadline=None)
@given(cases(), st.integers(1, 30))
@torch.no_grad()
def test_padding_never_changes_the_heads(case: tuple[SparseAttention, int, dict[str, Any]], more: int) -> None:
    attention, length, options = case
    if getattr(attention, "published", False):  # its last block is that of the whole batch
        return
    parts = some_heads(length, rows=1)
    longer = [torch.cat([part, torch.randn(1, HEADS, more, WIDTH)], dim=2) for part in parts]
    options |= {"key_mask": None}
    if "global_mask" in options:
        options["global_mask"] = options["global_mask"][:1]
    alone = attention(*parts, **options).heads
    if "global_mask" in options:
        options["global_mask"] = torch.cat([options["global_mask"], torch.rand(1, more) < 0.5], dim=-1)
    padded = attention(*longer, **{**options, "key_mask": padding_mask(torch.tensor([length]), length + more)}).heads
    torch.testing.assert_close(padded[:, :, :length], alone, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 7, 64])
def test_a_window_over_everything_is_full_attention(causal: bool, length: int) -> None:
    parts = some_heads(length)
    mask = padding_mask(torch.tensor([length, max(1, length - 5)]), length)
    every: list[dict[str, Any]] = [{"causal": causal}, {"causal": causal, "key_mask": mask, "bias": LinearBias(HEADS)}]
    for options in every:
        expected = FullAttention()(*parts, **options).heads
        for attention in (
            WindowAttention(length),
            LongformerAttention(length),
            BigBirdAttention(length, block=4),
            BigBirdAttention(length, published=True),
        ):
            torch.testing.assert_close(attention(*parts, **options).heads, expected, atol=TOLERANCE, rtol=0)


def test_a_window_hides_what_is_further_away() -> None:
    pattern = WindowAttention(2).pattern(6, Keys(6))[0, 0].int().tolist()
    assert pattern[0] == [1, 1, 1, 0, 0, 0]
    assert pattern[3] == [0, 1, 1, 1, 1, 1]
    causal = WindowAttention(2).pattern(6, Keys(6, causal=True))[0, 0].int().tolist()
    assert causal[0] == [1, 0, 0, 0, 0, 0]
    assert causal[4] == [0, 0, 1, 1, 1, 0]


LONG = 2048
AT_LENGTH: dict[str, SparseAttention] = {
    "window": WindowAttention(32),
    "longformer": LongformerAttention(32, 4),
    "bigbird": BigBirdAttention(32, 1, 2, 32),
}


@pytest.mark.parametrize("kind", sorted(AT_LENGTH))
@pytest.mark.parametrize("bias", [None, LinearBias(HEADS), RelativePositions(WIDTH, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_grows_with_the_square_of_the_length(
    kind: str, bias: PositionBias | None, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_SCORES", PIECE_SCORES)
    parts = some_heads(LONG, rows=1)
    mask = padding_mask(torch.tensor([LONG - 100]), LONG)
    attention = AT_LENGTH[kind]
    with LargestTensor() as largest:
        attention(*parts, causal=causal, key_mask=mask, bias=bias).heads.sum().backward()
    assert 0 < largest.numbers < LONG**2 / 4


def test_full_attention_with_weights_does_make_such_a_tensor() -> None:
    with LargestTensor() as largest:
        FullAttention()(*some_heads(LONG, rows=1), return_weights=True)
    assert largest.numbers >= LONG**2


def test_global_tokens_see_all_and_are_seen_by_all() -> None:
    chosen = torch.zeros(1, 7, dtype=torch.bool)
    chosen[0, 4] = True
    pattern = LongformerAttention(1, 1).pattern(7, Keys(7, chosen=chosen))[0, 0]
    assert bool(pattern[[0, 4]].all())
    assert bool(pattern[:, [0, 4]].all())
    assert pattern[6].int().tolist() == [1, 0, 0, 0, 1, 1, 1]
    causal = LongformerAttention(1, 1).pattern(7, Keys(7, causal=True, chosen=chosen))[0, 0].int()
    assert causal[4].tolist() == [1, 0, 0, 1, 1, 0, 0]
    assert causal[6].tolist() == [1, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("causal", [False, True])
def test_random_blocks_are_distinct_and_neither_near_nor_global(causal: bool) -> None:
    attention = BigBirdAttention(3, 1, 3, block=4)
    keys = Keys(200, causal)
    blocks = torch.arange(50)[None]
    columns = attention.further_columns(blocks, keys)
    assert columns is not None
    for block, row in enumerate(columns[0]):
        drawn = sorted({int(column) // 4 for column in row[row >= 0]})
        assert all(number >= 1 and abs(number - block) > 1 for number in drawn)
        assert all(number < block for number in drawn) or not causal
        room = max(0, block - 2) if causal else 49 - len({1, *range(max(1, block - 1), min(50, block + 2))} - {1}) - (block <= 2)
        assert len(drawn) == 3 or len(drawn) == room
        assert int((row >= 0).sum()) == 4 * len(drawn)


def test_random_blocks_depend_on_seed_layer_and_length_alone() -> None:
    def pattern(length: int = 90, **settings: Any) -> Tensor:
        torch.manual_seed(torch.randint(1000, ()).item())
        return BigBirdAttention(1, 0, 2, block=3, **settings).pattern(length, Keys(length))

    assert torch.equal(pattern(), pattern())
    assert not torch.equal(pattern(seed=1), pattern(seed=2))
    assert not torch.equal(pattern(layer=0), pattern(layer=1))
    assert not torch.equal(pattern(90), pattern(99)[..., :90, :90])
    earlier = BigBirdAttention(1, 0, 2, block=3)
    whole = earlier.pattern(99, Keys(99, causal=True))
    assert torch.equal(earlier.pattern(90, Keys(90, causal=True)), whole[..., :90, :90])  # so that a decoder may go on
