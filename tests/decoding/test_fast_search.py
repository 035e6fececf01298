"""The fast search finds what the plain one finds, while sentences join and leave."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_joining import BOS, EOS, LIMITS, PAD, SIZES, VOCAB, assert_same, encode, model_of, sources

from heedful.decoding.batching import ContinuousBatch
from heedful.decoding.candidates import candidates_functions
from heedful.decoding.fast_search import BLOCK, FastSearch
from heedful.decoding.search import Search
from heedful.decoding.sentence import Limits, Sampling, Sentence
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.nn.fast.decoder_layer import layers_function, without_python

NAMES = ["sinusoidal", "learned", "rotary", "odd"]
Wish = dict[str, Any]
wishes = st.fixed_dictionaries({"source": sources, "longest": st.integers(1, 30), "alpha": st.sampled_from([0.0, 0.6, 1.2])})


@cache
def fast_model(name: str) -> Seq2Seq:
    """A random model of the kind; `odd` has values of odd width and a vocabulary of several blocks."""
    if name != "odd":
        model: Seq2Seq = model_of(name)
        return model
    torch.manual_seed(2)
    model = Seq2Seq(Seq2SeqConfig(VOCAB, 5 * BLOCK + 3, **SIZES, positions="rotary", tie="none", d_v=5)).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        model.output_bias[EOS] += 6.0
    return model


def sentence_of(wish: Wish, beam: int) -> Sentence:
    return Sentence(wish["source"], BOS, wish["longest"], beam, wish["alpha"], max(1, beam))


def plainly(model: Seq2Seq, wish: Wish, beam: int) -> Sentence:
    """The same wish, decoded alone by the plain search."""
    sentence = sentence_of(wish, beam)
    search = Search(model, LIMITS)
    for encoded in encode([sentence]):
        search.join(*encoded)
    while search.sentences:
        search.step()
    return sentence


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([0, 1, 2, 5]),
    st.lists(st.tuples(st.integers(0, 12), st.lists(wishes, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5),
)
def test_it_finds_what_the_plain_search_finds(name: str, beam: int, arrivals: list[tuple[int, list[Wish], bool]]) -> None:
    """Sentences join some steps after those before them; the first of some groups leave before they are finished."""
    model = fast_model(name)
    search = FastSearch(model, LIMITS, beam)
    present: list[tuple[Wish, Sentence]] = []
    for wait, group, one_leaves in arrivals:
        for _ in range(wait):
            assert all(sentence.finished for sentence in search.step())
        together = [sentence_of(wish, beam) for wish in group]
        for encoded in encode(together):
            search.join(*encoded)
        if one_leaves:
            search.step()
            search.leave(together[:1])
        present += list(zip(group, together, strict=True))[int(one_leaves) :]
    while search.sentences:
        search.step()
    for wish, sentence in present:
        assert sentence.finished
        assert_same(sentence, plainly(model, wish, beam))
        if not beam:
            assert sentence.log_probabilities == pytest.approx(plainly(model, wish, beam).log_probabilities, abs=1e-6)


def test_a_long_output_outgrows_every_buffer() -> None:
    model = fast_model("rotary")
    limits = Limits(BOS, EOS, PAD)
    for beam in (0, 4):
        found, expected = (Sentence([5, 6, 7], BOS, 150, beam, 3.0, 2) for _ in range(2))
        for search, sentence in ((FastSearch(model, limits, beam), found), (Search(model, limits), expected)):
            search.join(*encode([sentence])[0])
            while search.sentences:
                search.step()
        assert_same(found, expected)


def test_a_continuous_batch_uses_it_for_what_it_can_do() -> None:
    model = fast_model("sinusoidal")
    batch = ContinuousBatch(model, LIMITS, lambda sentences: encode(list(sentences)), 1000)
    kinds = {
        "greedy": Sentence([5, 6], BOS, 9),
        "beam": Sentence([5, 6], BOS, 9, 3),
        "sampled": Sentence([5, 6], BOS, 9, sampling=Sampling()),
        "with alternatives": Sentence([5, 6], BOS, 9, alternatives=2),
    }
    batch.add(kinds.values())
    batch.step()
    searches = {kind: type(search) for kind, search in batch.searches.items()}
    assert searches == {(0, 0): FastSearch, (0, 3): FastSearch, (0, None): Search}
    while batch:
        batch.step()
    for name, sentence in kinds.items():
        assert sentence.hypotheses, name


def test_a_model_with_a_bias_on_its_scores_is_left_to_the_plain_search() -> None:
    for name in ("relative", "linear-bias", "window", "gru", "gpt"):
        assert not FastSearch.fits_model(model_of(name))
    assert FastSearch.fits_model(fast_model("rotary"))


def test_its_functions_run_without_python_and_others_as_they_are() -> None:
    for function in (layers_function(), *candidates_functions()):
        assert isinstance(function, torch.jit.ScriptFunction)

    def not_understood(*names: str) -> list[str]:
        return [name for name in names if name]

    assert without_python(not_understood) is not_understood
