"""Less repetition: the same logits as with Hugging Face's processors, in every kind of search, and loops that are seen."""

from __future__ import annotations

import copy
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_joining import BOS, EOS, LIMITS, encode, model_of

from heedful.decoding.repetition import discourage_repetition, repeats_itself
from heedful.decoding.search import Search
from heedful.decoding.sentence import Limits, Sampling, Sentence

VOCAB = 6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, VOCAB - 1), max_size=12), st.integers(1, 4), st.sampled_from([0.5, 1.2, 3.0]))
def test_logits_are_those_of_hugging_face(written: list[int], n: int, penalty: float) -> None:
    transformers = pytest.importorskip("transformers")
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(len(written)))
    tokens = torch.tensor([written], dtype=torch.long)
    expected = transformers.RepetitionPenaltyLogitsProcessor(penalty)(tokens, logits.clone())
    expected = transformers.NoRepeatNGramLogitsProcessor(n)(tokens, expected)
    found = logits[0].clone()
    discourage_repetition(found, written, n, penalty)
    torch.testing.assert_close(found, expected[0])


@cache
def endless() -> Any:
    """A model that writes up to the limit."""
    model = copy.deepcopy(model_of("rotary"))
    with torch.no_grad():
        model.output_bias[EOS] -= 100.0
    return model


def decoded(sentence: Sentence, model: Any = None, limits: Limits = LIMITS) -> list[list[int]]:
    search: Search[Any] = Search(model or endless(), limits)
    search.join(*encode([sentence])[0])
    while search.sentences:
        search.step()
    return [hypothesis.tokens for hypothesis in sentence.hypotheses]


def bigrams(tokens: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(tokens))


@pytest.mark.parametrize("kind", [{}, {"beam": 3, "n_best": 3}, {"sampling": Sampling(seed=3)}])
def test_no_search_writes_an_ngram_twice_that_must_not_be(kind: dict[str, Any]) -> None:
    repeating = decoded(Sentence([5, 6, 7], BOS, 30, alpha=3.0, **kind))
    assert any(len(set(bigrams(tokens))) < len(bigrams(tokens)) for tokens in repeating)
    for tokens in decoded(Sentence([5, 6, 7], BOS, 30, alpha=3.0, no_repeat_ngram=2, **kind)):
        assert len(tokens) > 12
        assert len(set(bigrams(tokens))) == len(bigrams(tokens))


def test_a_penalty_makes_written_tokens_less_probable() -> None:
    plain = decoded(Sentence([5, 6, 7], BOS, 12))[0]
    varied = decoded(Sentence([5, 6, 7], BOS, 12, repetition_penalty=50.0))[0]
    assert len(set(varied)) > len(set(plain))


def test_a_prompt_counts_as_written_but_a_source_does_not() -> None:
    of_prompt = Limits(BOS, EOS, 0, beyond_source=False)
    (written,) = decoded(Sentence([5, 6, 7, 8, 9, 10, 11, 12, 13], 3, 1, no_repeat_ngram=1), model_of("gpt"), of_prompt)
    assert not set(written) & {3, *range(5, 14)}
    first = decoded(Sentence([5, 6, 7], BOS, 1))
    assert decoded(Sentence([5, 6, first[0][0]], BOS, 1)) == decoded(Sentence([5, 6, first[0][0]], BOS, 1, no_repeat_ngram=1))


def test_a_loop_is_an_ngram_four_times_in_a_row() -> None:
    assert repeats_itself("the cat sat the cat sat the cat sat the cat sat".split())
    assert repeats_itself([1, 2, 7, 7, 7, 7, 3])
    assert not repeats_itself("no no no , the cat sat on the mat and the cat sat on the hat".split())
    assert not repeats_itself([7, 7, 7])
    assert not repeats_itself([])
