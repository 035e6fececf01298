"""Sentences join and leave a running search, with options of their own, and no sentence's output depends on the others."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.decoding.batching import ContinuousBatch, Encoded, cost
from heedful.decoding.search import Search
from heedful.decoding.sentence import Limits, Sampling, Sentence
from heedful.models.gpt import GPT, GPTConfig
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.nn.masks import padding_mask

PAD, BOS, EOS, VOCAB = 0, 1, 2, 14
LIMITS = Limits(BOS, EOS, PAD)
SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}
MODELS: dict[str, Any] = {
    "sinusoidal": Seq2SeqConfig(VOCAB, VOCAB, **SIZES),
    "learned": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, positions="learned", max_positions=5, norm="pre"),
    "relative": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, positions="relative", max_distance=3, reads="layerwise"),
    "rotary": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, positions="rotary", reads="mix"),
    "linear-bias": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, positions="linear-bias"),
    "gru": RecurrentConfig(VOCAB, VOCAB, d_model=16),
    "lstm": RecurrentConfig(VOCAB, VOCAB, "lstm", "dot", layers=2, d_model=16),
    "without attention": RecurrentConfig(VOCAB, VOCAB, attention="none", d_model=16),
    "gpt": GPTConfig(VOCAB, **SIZES, context=8),  # so short that texts start again from half of it
    "gpt rotary": GPTConfig(VOCAB, **SIZES, context=9, positions="rotary"),
    "gpt linear-bias": GPTConfig(VOCAB, **SIZES, context=64, positions="linear-bias"),
    "window": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, attention_kind="window", window=2),
    "window relative": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, positions="relative", attention_kind="window", window=3),
    "longformer": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, attention_kind="longformer", window=2, global_tokens=2),
    "reformer": Seq2SeqConfig(VOCAB, VOCAB, **SIZES, attention_kind="reformer", hash_buckets=2, hash_chunk=2),
    "gpt bigbird": GPTConfig(
        VOCAB, **SIZES, context=64, attention_kind="bigbird", window=1, attention_block=2, random_blocks=1, positions="rotary"
    ),
    "gpt reformer": GPTConfig(VOCAB, **SIZES, context=9, attention_kind="reformer", hash_buckets=4, hash_chunk=3),
    "gpt window": GPTConfig(VOCAB, **SIZES, context=9, attention_kind="window", window=2),
    "gpt window linear-bias": GPTConfig(VOCAB, **SIZES, context=64, positions="linear-bias", attention_kind="window", window=3),
}
KINDS = {Seq2SeqConfig: Seq2Seq, RecurrentConfig: Recurrent, GPTConfig: GPT}


@cache
def model_of(name: str) -> Any:
    """A random model whose weights are so large that its outputs differ and some of them end.

    In float64, because the last digits of a product depend on the size of the batch: in float32 two hypotheses that are
    nearly equal could change places for that reason alone.
    """
    torch.manual_seed(1)
    model = KINDS[type(MODELS[name])](MODELS[name]).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def encode(sentences: list[Sentence], equal_lengths: bool = False) -> list[Encoded]:
    """Sources as a padded batch, or one by one."""
    groups = [[sentence] for sentence in sentences] if equal_lengths else [sentences]
    found: list[Encoded] = []
    for group in groups:
        lengths = [len(sentence.source) for sentence in group]
        rows = [[*sentence.source, *[PAD] * (max(lengths) - len(sentence.source))] for sentence in group]
        source = torch.tensor(rows, dtype=torch.long).view(len(group), -1)
        found.append((source, padding_mask(torch.tensor(lengths), source.size(1)), group))
    return found


sources = st.lists(st.integers(EOS + 1, VOCAB - 1), min_size=1, max_size=7)
drawn = st.builds(
    Sampling, st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 5), st.sampled_from([0.5, 0.9, 1.0]), st.integers(0, 9)
)
wishes = st.fixed_dictionaries(
    {
        "source": sources,
        "longest": st.integers(1, 14),
        "beam": st.sampled_from([0, 0, 1, 2, 3]),
        "alpha": st.sampled_from([0.0, 0.6, 1.2]),
        "sampling": st.none() | drawn,
    }
)


def sentence_of(wish: dict[str, Any]) -> Sentence:
    beam = 0 if wish["sampling"] else wish["beam"]
    return Sentence(wish["source"], BOS, wish["longest"], beam, wish["alpha"], max(1, beam), wish["sampling"], alternatives=2)


def alone(model: Any, wish: dict[str, Any]) -> Sentence:
    """The same wish, decoded by itself."""
    sentence = sentence_of(wish)
    search = Search(model, LIMITS)
    for encoded in encode([sentence]):
        search.join(*encoded)
    while search.sentences:
        search.step()
    return sentence


def assert_same(found: Sentence, expected: Sentence) -> None:
    assert [h.tokens for h in found.hypotheses] == [h.tokens for h in expected.hypotheses]
    assert [h.score for h in found.hypotheses] == pytest.approx([h.score for h in expected.hypotheses], abs=1e-4)
    assert [[token for token, _ in step] for step in found.ranked] == [[token for token, _ in step] for step in expected.ranked]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), wishes, st.none() | st.integers(1, 6)), min_size=2, max_size=7))
def test_joining_and_leaving_change_nobody_s_output(name: str, arrivals: list[tuple[int, dict[str, Any], int | None]]) -> None:
    """Each sentence joins some steps after the one before it; some leave before they are finished."""
    model = model_of(name)
    search = Search(model, LIMITS)
    leaving: dict[int, list[Sentence]] = {}
    present: list[tuple[dict[str, Any], Sentence]] = []
    step = 0

    def advance() -> None:
        nonlocal step
        search.leave(leaving.pop(step, []))
        for sentence in search.step():
            assert sentence.finished
        step += 1

    for wait, wish, gives_up in arrivals:
        for _ in range(wait):
            advance()
        sentence = sentence_of(wish)
        for encoded in encode([sentence]):
            search.join(*encoded)
        if gives_up is None:
            present.append((wish, sentence))
        else:
            leaving.setdefault(step + gives_up, []).append(sentence)
    while search.sentences:
        advance()
    for wish, sentence in present:
        assert_same(sentence, alone(model, wish))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(wishes, min_size=1, max_size=12), st.integers(1, 40), st.sampled_from([0.0, 0.5]), st.sampled_from(["rotary", "gpt"])
)
def test_a_continuous_batch_decodes_everyone_within_its_budget(
    wanted: list[dict[str, Any]], budget: int, refill: float, name: str
) -> None:
    model = model_of(name)
    batch = ContinuousBatch(model, LIMITS, lambda sentences: encode(list(sentences), name == "gpt"), budget, refill)
    sentences = [sentence_of(wish) for wish in wanted]
    batch.add(sentences)
    finished: list[Sentence] = []
    while batch:
        finished += batch.step()
        running = [sentence for search in batch.searches.values() for sentence in search.sentences]
        assert batch.used.total() == sum(map(cost, running))
        small = [sentence for sentence in running if cost(sentence) <= budget // 2]
        assert len(running) == 1 or sum(map(cost, small)) <= budget
    assert sorted(map(id, finished)) == sorted(map(id, sentences))
    assert (batch.used.total(), batch.rows) == (0, 0)
    for wish, sentence in zip(wanted, sentences, strict=True):
        assert_same(sentence, alone(model, wish))


def test_a_long_source_never_pads_short_ones() -> None:
    model = model_of("rotary")
    seen: list[int] = []

    def start(source: Tensor, mask: Tensor | None = None) -> Any:
        seen.append(source.size(1))
        return model.start(source, mask)

    class Watched:
        step = staticmethod(model.step)

    Watched.start = staticmethod(start)  # type: ignore[attr-defined]
    batch: ContinuousBatch[Any] = ContinuousBatch(Watched(), LIMITS, lambda sentences: encode(list(sentences)), 10_000)  # type: ignore[arg-type]
    batch.add([Sentence([5] * length, BOS, 3) for length in (4, 500, 7)])
    batch.step()
    assert sorted(seen) == [7, 500]


def test_who_is_removed_frees_the_place() -> None:
    batch = ContinuousBatch(model_of("rotary"), LIMITS, lambda sentences: encode(list(sentences)), 20)
    first, second, third = (Sentence([5] * 8, BOS, 50) for _ in range(3))
    batch.add([first, second, third])
    batch.step()
    assert [sentence for search in batch.searches.values() for sentence in search.sentences] == [first, second]
    batch.remove([first])
    batch.step()
    assert [sentence for search in batch.searches.values() for sentence in search.sentences] == [second, third]
    batch.remove([second, third])
    assert not batch
    assert not batch.used


def test_there_is_always_room_for_a_newcomer() -> None:
    batch = ContinuousBatch(model_of("rotary"), LIMITS, lambda sentences: encode(list(sentences)), 90, fair=True)
    batch.add([Sentence([5] * 8, BOS, 200) for _ in range(30)], "one with many")
    batch.step()
    assert batch.used["one with many"] == 45  # half of the budget
    batch.add([Sentence([5] * 8, BOS, 200) for _ in range(30)], "another")
    batch.add([Sentence([5] * 8, BOS, 3)], "one with little")
    batch.step()
    assert batch.used["one with little"] == 9
    assert 9 <= batch.used["another"] <= 27


def test_alternatives_are_the_most_probable_tokens_of_each_step() -> None:
    sentence = alone(model_of("rotary"), {"source": [5, 6], "longest": 6, "beam": 0, "alpha": 0.0, "sampling": None})
    assert len(sentence.ranked) == len(sentence.log_probabilities)
    for token, value, ranked in zip(sentence.tokens, sentence.log_probabilities, sentence.ranked, strict=False):
        assert ranked[0][0] == token
        assert ranked[0][1] == pytest.approx(value)
        assert ranked[0][1] >= ranked[1][1]
