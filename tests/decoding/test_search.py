"""Greedy search, beam search and sampling against slow references and exhaustive search."""

from __future__ import annotations

import copy
import itertools
import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.decoding.length_penalty import length_penalty
from heedful.decoding.search import beam_search, greedy_search, next_log_probabilities, restrict, sample
from heedful.decoding.sentence import Hypothesis, Limits
from heedful.models.seq2seq import Seq2Seq, make_model
from heedful.nn.masks import padding_mask

PAD, BOS, EOS = 0, 1, 2
VOCAB = 12
LIMITS = Limits(BOS, EOS, PAD, max_extra=0)  # so low that some outputs are cut off on any processor
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 5},
    {"reads": "layerwise", "positions": "relative", "max_distance": 2},
    {"reads": "mix", "decoder_layers": 3, "positions": "rotary", "d_k": 4, "d_v": 7},
    {"positions": "linear-bias", "tie": "all"},
]
SOURCES = [[3, 4, 5, 6, 7], [8], [9, 10, 11], [4, 4], [11, 3, 9, 5, 6, 7, 10], [5, 6], [7, 3, 3, 8]]


@cache
def small(variant: int = 0, vocab: int = VOCAB, steps: int = 60) -> Seq2Seq:
    """A partly trained model that reverses its source: its outputs differ, some end, and none is certain."""
    torch.manual_seed(variant)
    model = make_model(vocab, vocab, 16, layers=2, d_ff=32, heads=2, dropout=0.0, **VARIANTS[variant])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        length = 1 + step % 6
        source = torch.randint(EOS + 1, vocab, (32, length))
        target = torch.cat([torch.full((32, 1), BOS), source.flip(1), torch.full((32, 1), EOS)], dim=1)
        scores = model(source, target[:, :-1])
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(scores.flatten(0, 1), target[:, 1:].flatten()).backward()
        optimizer.step()
    return model.eval()


def batch_of(sources: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Padded tokens and mask."""
    lengths = [len(source) for source in sources]
    rows = [source + [PAD] * (max(lengths) - len(source)) for source in sources]
    return torch.tensor(rows), padding_mask(torch.tensor(lengths))


# Slow references: one sentence, no cache, no padding, the whole model again at every step.


@torch.no_grad()
def after(model: Seq2Seq, source: list[int], written: list[int]) -> list[float]:
    """Log-probabilities of what follows, without padding and begin."""
    scores = model(torch.tensor([source]), torch.tensor([[BOS, *written]]))[0, -1].clone()
    scores[[PAD, BOS]] = -math.inf
    return scores.log_softmax(-1).tolist()


def slow_greedy(model: Seq2Seq, source: list[int], limits: Limits) -> tuple[list[int], float]:
    written: list[int] = []
    total = 0.0
    for _ in range(len(source) + limits.max_extra):
        scores = after(model, source, written)
        token = max(range(len(scores)), key=scores.__getitem__)
        total += scores[token]
        if token == EOS:
            break
        written.append(token)
    return written, total


def slow_beam(model: Seq2Seq, source: list[int], limits: Limits, beam: int, alpha: float) -> list[tuple[list[int], float]]:
    """Ended and cut-off hypotheses with their scores, best first."""
    open_: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[tuple[list[int], float]] = []
    for length in range(1, len(source) + limits.max_extra + 1):
        longer = []
        for written, total in open_:
            longer += [([*written, token], total + value) for token, value in enumerate(after(model, source, written))]
        longer.sort(key=lambda h: -h[1])
        penalty = length_penalty(length, alpha)
        ended += [(written[:-1], total / penalty) for written, total in longer[:beam] if written[-1] == EOS]
        ended = sorted(ended, key=lambda h: -h[1])[:beam]
        open_ = [h for h in longer[: 2 * beam] if h[0][-1] != EOS][:beam]
        if length == len(source) + limits.max_extra:
            ended += [(written, total / penalty) for written, total in open_]
        elif len(ended) == beam and open_[0][1] / penalty <= ended[-1][1]:
            break
    return sorted(ended, key=lambda h: -h[1])


def test_an_output_is_never_longer_than_the_most_tokens_allowed() -> None:
    assert [Limits(BOS, EOS, PAD, 3, max_tokens=most).longest(10) for most in (0, 5, 13, 20)] == [13, 5, 13, 13]


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_cached_greedy_search_equals_running_the_whole_model_again(variant: int) -> None:
    model = small(variant)
    found = greedy_search(model, *batch_of(SOURCES), LIMITS)
    expected = [slow_greedy(model, source, LIMITS) for source in SOURCES]
    assert [hypothesis.tokens for hypothesis in found] == [tokens for tokens, _ in expected]
    for hypothesis, (_, total) in zip(found, expected, strict=True):
        assert hypothesis.log_probability == hypothesis.score == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize(("beam", "alpha"), [(2, 0.6), (4, 0.0), (4, 0.6), (5, 1.5)])
def test_cached_beam_search_equals_running_the_whole_model_again(variant: int, beam: int, alpha: float) -> None:
    model = small(variant)
    sources = SOURCES[:4]
    found = beam_search(model, *batch_of(sources), LIMITS, beam, alpha, n_best=beam)
    for source, hypotheses in zip(sources, found, strict=True):
        expected = slow_beam(model, source, LIMITS, beam, alpha)[:beam]
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_these_models_end_some_outputs_and_cut_others_off() -> None:
    ended, cut = 0, 0
    for variant in range(len(VARIANTS)):
        found = greedy_search(small(variant), *batch_of(SOURCES), LIMITS)
        lengths = [len(hypothesis.tokens) for hypothesis in found]
        limits = [len(source) + LIMITS.max_extra for source in SOURCES]
        assert all(length <= limit for length, limit in zip(lengths, limits, strict=True))
        cut += sum(length == limit for length, limit in zip(lengths, limits, strict=True))
        ended += sum(0 < length < limit for length, limit in zip(lengths, limits, strict=True))
    assert ended >= 5
    assert cut >= 3


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_beam_of_one_is_greedy(variant: int, alpha: float) -> None:
    model = small(variant)
    greedy = greedy_search(model, *batch_of(SOURCES), LIMITS)
    beams = beam_search(model, *batch_of(SOURCES), LIMITS, 1, alpha)
    assert [h.tokens for (h,) in beams] == [h.tokens for h in greedy]
    assert [h.log_probability for (h,) in beams] == pytest.approx([h.log_probability for h in greedy], abs=1e-4)


@torch.no_grad()
def every_output(model: Seq2Seq, source: list[int], longest: int, alpha: float, vocab: int) -> list[Hypothesis]:
    """All possible outputs: every sequence that ends within the limit, and every one that the limit cuts off."""
    words = range(EOS + 1, vocab)
    found = []
    for length in range(1, longest + 1):
        ended = [(*words_before, EOS) for words_before in itertools.product(words, repeat=length - 1)]
        rows = ended + (list(itertools.product(words, repeat=length)) if length == longest else [])
        written = torch.tensor(rows)  # (outputs, length)
        begun = torch.cat([torch.full((len(rows), 1), BOS), written[:, :-1]], dim=1)
        scores = model(torch.tensor([source]).expand(len(rows), -1), begun)
        scores[..., [PAD, BOS]] = -math.inf
        totals = scores.log_softmax(-1).gather(-1, written[..., None]).sum((1, 2)).tolist()
        for row, total in zip(rows, totals, strict=True):
            tokens = [token for token in row if token != EOS]
            found.append(Hypothesis(tokens, total, total / length_penalty(length, alpha)))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("vocab", [5, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_agrees_with_exhaustive_search(vocab: int, alpha: float) -> None:
    model = small(0, vocab)
    limits = Limits(BOS, EOS, PAD, max_extra=3)
    for word in range(EOS + 1, vocab):
        expected = every_output(model, [word], 4, alpha, vocab)
        words = vocab - 3
        assert len(expected) == 1 + words + words**2 + words**3 + words**4
        assert sum(math.exp(h.log_probability) for h in expected) == pytest.approx(1.0, abs=1e-4)
        (found,) = beam_search(model, *batch_of([[word]]), limits, len(expected), alpha, n_best=len(expected))
        assert [h.tokens for h in found[:25]] == [h.tokens for h in expected[:25]]
        assert sorted(h.tokens for h in found) == sorted(h.tokens for h in expected)
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_other_sentences_of_the_batch_never_change_an_output(variant: int) -> None:
    model = small(variant)

    def search(sources: list[list[int]]) -> list[list[Hypothesis]]:
        greedy = greedy_search(model, *batch_of(sources), LIMITS)
        beams = beam_search(model, *batch_of(sources), LIMITS, 3, 0.6, n_best=3)
        return [[one, *several] for one, several in zip(greedy, beams, strict=True)]

    together = search(SOURCES)
    backwards = search(SOURCES[::-1])[::-1]
    alone = [search([source])[0] for source in SOURCES]
    for other in (backwards, alone):
        for mine, theirs in zip(together, other, strict=True):
            assert [h.tokens for h in mine] == [h.tokens for h in theirs]
            assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_score_is_the_sum_of_log_probabilities_over_the_length_penalty(alpha: float) -> None:
    model = small()
    for source, hypotheses in zip(SOURCES, beam_search(model, *batch_of(SOURCES), LIMITS, 4, alpha, n_best=4), strict=True):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == 4
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens
            assert not {PAD, BOS, EOS} & set(tokens)
            output = tokens if len(tokens) == len(source) + LIMITS.max_extra else [*tokens, EOS]
            total = sum(after(model, source, output[:i])[token] for i, token in enumerate(output))
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
            assert hypothesis.score == pytest.approx(total / ((5 + len(output)) / 6) ** alpha, abs=1e-4)


def test_a_stronger_length_penalty_gives_longer_outputs() -> None:
    words = []
    for alpha in (0.0, 3.0):
        found = beam_search(small(), *batch_of(SOURCES), LIMITS, 8, alpha)
        words.append(sum(len(h.tokens) for (h,) in found))
    assert words[0] < words[1]


@pytest.mark.parametrize("variant", [0, 1, 3])  # sinusoidal, learned (beyond the last) and rotary positions
def test_an_input_longer_than_anything_seen_is_decoded(variant: int) -> None:
    model = copy.deepcopy(small(variant))
    with torch.no_grad():
        model.output_bias[EOS] -= 30.0  # so that it decodes up to the limit
    source = torch.randint(3, VOCAB, (1, 600), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(1, 600, dtype=torch.bool)
    (found,) = greedy_search(model, source, mask, Limits(BOS, EOS, PAD, max_extra=10))
    assert len(found.tokens) == 610
    written = torch.tensor([[BOS, *found.tokens]])
    with torch.no_grad():
        scores = model(source, written[:, :-1])
    scores[..., [PAD, BOS]] = -math.inf
    total = scores.log_softmax(-1).gather(-1, written[:, 1:, None]).sum()
    assert found.log_probability == pytest.approx(total.item(), rel=1e-3)
    ((beamed,),) = beam_search(small(variant), source, mask, LIMITS, 2)
    assert 0 < len(beamed.tokens) <= 603


def test_padding_and_begin_are_never_generated() -> None:
    scores = next_log_probabilities(torch.zeros(2, VOCAB), LIMITS)
    assert scores[:, [PAD, BOS]].tolist() == [[-math.inf] * 2] * 2
    assert torch.allclose(scores.exp().sum(-1), torch.ones(2))


# Sampling


def allowed(scores: Tensor) -> list[int]:
    return scores.isfinite().nonzero().flatten().tolist()


def test_top_k_keeps_the_k_likeliest() -> None:
    scores = torch.tensor([0.1, 3.0, -1.0, 2.0, 1.0])
    assert allowed(restrict(scores, top_k=1)) == [1]
    assert allowed(restrict(scores, top_k=3)) == [1, 3, 4]
    for everything in (0, 5, 9):
        assert torch.equal(restrict(scores, top_k=everything), scores)
    assert torch.equal(restrict(scores, top_k=3)[[1, 3, 4]], scores[[1, 3, 4]])


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    scores = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert allowed(restrict(scores, top_p=0.0)) == [1]
    assert allowed(restrict(scores, top_p=0.35)) == [1]
    assert allowed(restrict(scores, top_p=0.45)) == [1, 3]
    assert allowed(restrict(scores, top_p=0.65)) == [1, 3]
    assert allowed(restrict(scores, top_p=0.75)) == [1, 2, 3]
    assert allowed(restrict(scores, top_p=0.95)) == [0, 1, 2, 3]
    assert torch.equal(restrict(scores, top_p=1.0), scores)


def test_top_p_applies_after_top_k() -> None:
    scores = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    assert allowed(restrict(scores, top_k=2, top_p=0.5)) == [1]  # 0.4 of 0.4 + 0.3 is 0.57
    assert allowed(restrict(scores, top_k=2, top_p=0.6)) == [1, 3]


def test_each_row_is_restricted_on_its_own() -> None:
    rows = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]).log()
    together = restrict(rows, top_k=2, top_p=0.8)
    for row, alone in zip(together, rows, strict=True):
        assert torch.equal(row, restrict(alone, top_k=2, top_p=0.8))


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_sampling_from_the_best_token_alone_is_greedy(variant: int) -> None:
    model = small(variant)
    greedy = greedy_search(model, *batch_of(SOURCES), LIMITS)
    for only in ({"top_k": 1}, {"top_p": 1e-6}):
        drawn = sample(model, *batch_of(SOURCES), LIMITS, 1.3, **only)
        assert [h.tokens for h in drawn] == [h.tokens for h in greedy]
        assert [h.score for h in drawn] == pytest.approx([h.score for h in greedy], abs=1e-4)


def test_the_same_seed_draws_the_same_outputs() -> None:
    def draw(seed: int) -> list[Hypothesis]:
        return sample(small(), *batch_of(SOURCES), LIMITS, seed=seed)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_a_sample_is_scored_by_the_model_s_own_log_probability() -> None:
    model = small()
    for source, drawn in zip(SOURCES, sample(model, *batch_of(SOURCES), LIMITS, 2.0, 6, 0.9), strict=True):
        tokens = drawn.tokens
        output = tokens if len(tokens) == len(source) + LIMITS.max_extra else [*tokens, EOS]
        total = sum(after(model, source, output[:i])[token] for i, token in enumerate(output))
        assert drawn.log_probability == drawn.score == pytest.approx(total, abs=1e-4)


class Rows:
    """The state of a model that needs only the number of rows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def select(self, rows: Tensor, sources: bool = True) -> None:
        self.count = len(rows)

    def join(self, other: Rows) -> None:
        self.count += other.count


class Always:
    """A model with the same logits at every step."""

    def __init__(self, logits: list[float]) -> None:
        self.logits = torch.tensor(logits)

    def start(self, source: Tensor, source_mask: Tensor | None = None) -> Rows:
        return Rows(source.size(0))

    def step(self, tokens: Tensor, state: Rows) -> Tensor:
        assert len(tokens) == state.count
        return self.logits.repeat(state.count, 1)


LOGITS = [4.0, 4.0, 0.5, 1.5, -0.5, 1.0, 0.0]  # padding and begin first, which must never be generated


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 3, 1.0), (1.5, 0, 0.7), (0.7, 4, 0.9)]
)
def test_samples_are_as_frequent_as_their_probabilities(temperature: float, top_k: int, top_p: float) -> None:
    count = 20_000
    source, mask = torch.full((count, 1), 3), torch.ones(count, 1, dtype=torch.bool)
    limits = Limits(BOS, EOS, PAD, max_extra=0)  # one token each
    drawn = sample(Always(LOGITS), source, mask, limits, temperature, top_k, top_p)
    frequency = torch.zeros(len(LOGITS))
    for hypothesis in drawn:
        frequency[hypothesis.tokens[0] if hypothesis.tokens else EOS] += 1 / count

    weights = [0.0, 0.0, *(math.exp(logit / temperature) for logit in LOGITS[2:])]
    order = sorted(range(len(LOGITS)), key=lambda token: -weights[token])
    if top_k:
        order = order[:top_k]
    whole = sum(weights[token] for token in order)
    kept: list[int] = []
    for token in order:
        if sum(weights[t] for t in kept) / whole < top_p:
            kept.append(token)
    whole = sum(weights[token] for token in kept)
    for token in range(len(LOGITS)):
        p = weights[token] / whole if token in kept else 0.0
        assert abs(float(frequency[token]) - p) <= 4.5 * math.sqrt(p * (1 - p) / count), token


def test_the_limit_counts_the_source_s_real_tokens() -> None:
    never_ends = Always([0.0, 0.0, -50.0, 1.0, 2.0])
    source, mask = batch_of([[3, 3, 3], [3]])
    limits = Limits(BOS, EOS, PAD, max_extra=2)
    assert [h.tokens for h in greedy_search(never_ends, source, mask, limits)] == [[4] * 5, [4] * 3]
    assert [h.tokens for (h,) in beam_search(never_ends, source, mask, limits, 3)] == [[4] * 5, [4] * 3]
