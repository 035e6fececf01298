"""The recurrent baseline: its formulas one by one, invariants of its output, search, and that it learns."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from heedful.decoding.search import beam_search, greedy_search
from heedful.decoding.sentence import Limits
from heedful.errors import UsageError
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.weights import load_weights, named_weights
from heedful.nn.loss import label_smoothed_loss
from heedful.nn.masks import padding_mask
from heedful.nn.recurrent import CELLS, RecurrentAttention, RecurrentEncoder, Score
from heedful.runtime.processes import Processes
from heedful.training.flat_weights import FlatWeights

ATTENTIONS = get_args(Score)
SCORES = [score for score in ATTENTIONS if score != "none"]

VOCAB = 11
PAD, BOS, EOS = 0, 1, 2

every_model = pytest.mark.parametrize(("cell", "attention"), [(c, a) for c in CELLS for a in ATTENTIONS])
kinds = st.tuples(st.sampled_from(list(CELLS)), st.sampled_from(ATTENTIONS), st.integers(1, 2), st.booleans())
sentence = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8)
pairs = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)


@cache
def small(cell: Any, attention: Any, layers: int = 2, bidirectional: bool = True) -> Recurrent:
    """A small random model in eval mode, its weights and biases large enough for every part to matter."""
    torch.manual_seed(0)
    config = RecurrentConfig(VOCAB, VOCAB, cell, attention, layers, d_model=12, bidirectional=bidirectional)
    model = Recurrent(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def with_padding(rows: list[list[int]], length: int, filler: int = PAD) -> tuple[Tensor, Tensor]:
    """Rows padded to a length with some token, and their mask."""
    tokens = torch.tensor([row + [filler] * (length - len(row)) for row in rows])
    return tokens, padding_mask(torch.tensor([len(row) for row in rows]), length)


@dataclass
class Pairs:
    """A batch to train on."""

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor

    @classmethod
    def of(cls, sources: list[list[int]], targets: list[list[int]]) -> Pairs:
        """Padded; the source with its end, the target shifted right."""
        source, source_mask = with_padding([[*s, EOS] for s in sources], max(len(s) for s in sources) + 1)
        length = max(len(t) for t in targets) + 1
        target_in, target_mask = with_padding([[BOS, *t] for t in targets], length)
        target_out, _ = with_padding([[*t, EOS] for t in targets], length)
        return cls(source, source_mask, target_in, target_out, target_mask)


BATCH = Pairs.of([[3, 4, 5, 6], [7], [8, 9]], [[3, 3], [4, 5, 6, 7], [8]])


# The formulas


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_the_bidirectional_encoder_is_pytorch_s_on_packed_sequences(cell: Any, layers: int) -> None:
    torch.manual_seed(0)
    ours = RecurrentEncoder(cell, 8, layers, bidirectional=True)
    theirs = CELLS[cell](8, 4, layers, batch_first=True, bidirectional=True)
    for layer in range(layers):
        for direction, suffix in ((ours.rightward[layer], ""), (ours.leftward[layer], "_reverse")):
            for name, parameter in direction.named_parameters():
                parameter.copy_(torch.randn_like(parameter))
                theirs.get_parameter(name.replace("_l0", f"_l{layer}{suffix}")).copy_(parameter)
    x, lengths = torch.randn(5, 7, 8), torch.tensor([3, 7, 1, 6, 2])
    packed, final = theirs(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    wanted = pad_packed_sequence(packed, batch_first=True, total_length=7)[0]
    wanted_final = (final[0] if cell == "lstm" else final).view(layers, 2, 5, 4).transpose(1, 2).flatten(2)
    states, finals = ours(x, mask := padding_mask(lengths, 7))
    assert torch.allclose(states[mask], wanted[mask], atol=1e-6)
    assert torch.allclose(finals, wanted_final, atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_scores_weights_and_contexts_are_those_of_the_formulas(score: Any) -> None:
    torch.manual_seed(0)
    attention: Any = RecurrentAttention(6, score)
    s, h, real = torch.randn(2, 3, 6), torch.randn(2, 4, 6), [4, 2]

    def e(query: Tensor, state: Tensor) -> float:
        if score == "additive":
            mixed = torch.tanh(attention.project_query.weight @ query + attention.project_key.weight @ state)
            return float(attention.project_score.weight[0] @ mixed)
        if score == "bilinear":
            return float(query @ attention.project_key.weight @ state)
        return float(query @ state) / (math.sqrt(6) if score == "scaled-dot" else 1.0)

    mask = padding_mask(torch.tensor(real), 4)
    found, (weights, scores) = attention(s, h, attention.project_key(h), mask, return_weights=True)
    for b in range(2):
        for t in range(3):
            powers = [math.exp(e(s[b, t], h[b, j])) for j in range(real[b])]
            alpha = [power / sum(powers) for power in powers]
            assert scores[b, 0, t].tolist() == pytest.approx([e(s[b, t], h[b, j]) for j in range(4)], abs=1e-5)
            assert weights[b, 0, t].tolist() == pytest.approx(alpha + [0.0] * (4 - real[b]), abs=1e-5)
            context = sum(alpha[j] * h[b, j] for j in range(real[b]))
            assert torch.allclose(found[b, t], torch.as_tensor(context), atol=1e-5)


@every_model
@torch.no_grad()
def test_a_target_is_written_as_the_formulas_say(cell: Any, attention: Any) -> None:
    model: Any = small(cell, attention, layers=1)
    source, target = torch.tensor([[3, 4, 5, 6]]), [BOS, 7, 8, 9]
    memory, finals = model.encode(source)
    one: Any = (nn.LSTMCell if cell == "lstm" else nn.GRUCell)(12, 12)
    for name, parameter in one.named_parameters():
        parameter.copy_(model.decoder.cells.get_parameter(f"{name}_l0"))
    first = torch.tanh(finals[0] @ model.decoder.first[0].weight.T)
    state: Any = first.split(12, dim=-1) if cell == "lstm" else first
    outputs = model(source, torch.tensor([target]))
    for t, token in enumerate(target):
        state = one(model.target_embedding.weight[token][None] * math.sqrt(12), state)
        s = state[0] if cell == "lstm" else state
        if attention != "none":
            cross = model.decoder.cross_attention
            alpha = torch.stack([cross.score(s[None], cross.project_key(h)[None, None])[0, 0, 0] for h in memory[0]]).softmax(0)
            a = (alpha[:, None] * memory[0]).sum(0)
            s = torch.tanh(torch.cat([a, s[0]]) @ model.decoder.combine.weight.T)[None]
        wanted = (s @ model.output_weight.T + model.output_bias).log_softmax(-1)
        assert torch.allclose(outputs[:, t], wanted, atol=1e-5)


@pytest.mark.parametrize("attention", ATTENTIONS)
@torch.no_grad()
def test_only_attention_sees_more_of_the_source_than_its_final_state(attention: Any) -> None:
    model = small("gru", attention)
    tokens = torch.tensor([[BOS, 5, 6]])
    memory, finals = model.encode(torch.tensor([[3, 4, 5]]))
    one = model.decode(tokens, model.decoder.start(memory, finals))
    other = model.decode(tokens, model.decoder.start(memory + torch.randn_like(memory), finals))
    assert torch.equal(one, other) == (attention == "none")
    assert not torch.allclose(one, model.decode(tokens, model.decoder.start(memory, -finals)), atol=1e-3)


# What never changes an output


@settings(max_examples=30, deadline=None)
@given(kinds, st.integers(1, 4), st.integers(1, 7), st.integers(1, 7))
@torch.no_grad()
def test_any_shape_gives_a_log_probability_of_every_target_token(kind: Any, batch: int, length: int, width: int) -> None:
    model = small(*kind)
    source, target = torch.randint(0, VOCAB, (batch, length)), torch.randint(0, VOCAB, (batch, width))
    out = model(source, target)
    assert out.shape == (batch, width, VOCAB)
    assert torch.allclose(out.exp().sum(-1), torch.ones(batch, width), atol=1e-5)
    memory, finals = model.encode(source)
    assert (memory.shape, finals.shape) == ((batch, length, 12), (model.config.layers, batch, 12))


@settings(max_examples=40, deadline=None)
@given(kinds, pairs, st.integers(0, 4), st.integers(0, 4), st.integers(0, VOCAB - 1))
@torch.no_grad()
def test_padding_never_changes_the_output(
    kind: Any, rows: list[tuple[list[int], list[int]]], more_source: int, more_target: int, filler: int
) -> None:
    model = small(*kind)
    source, source_mask = with_padding([s for s, _ in rows], max(len(s) for s, _ in rows) + more_source, filler)
    target, target_mask = with_padding([t for _, t in rows], max(len(t) for _, t in rows) + more_target, filler)
    out = model(source, target, source_mask, target_mask)
    assert torch.equal(model(source, target, source_mask.long()), out)  # masks of ones and zeros work too
    for i, (s, t) in enumerate(rows):
        alone = model(torch.tensor([s]), torch.tensor([t]))[0]  # no padding, no mask, and no neighbours
        assert torch.allclose(out[i, : len(t)], alone, atol=1e-5, rtol=0)


@every_model
@torch.no_grad()
def test_a_future_token_never_changes_an_earlier_output(cell: Any, attention: Any) -> None:
    model, source = small(cell, attention), torch.tensor([[3, 4, 5]])
    before, after = model(source, torch.tensor([[1, 5, 6, 7]])), model(source, torch.tensor([[1, 5, 9, 7]]))
    assert torch.allclose(before[:, :2], after[:, :2], atol=1e-6)
    assert (before[:, 2:] - after[:, 2:]).abs().amax((0, 2)).min().item() > 1e-4


@pytest.mark.parametrize("bidirectional", [True, False])
@torch.no_grad()
def test_only_a_bidirectional_encoder_sees_later_tokens(bidirectional: bool) -> None:
    model = small("gru", "dot", 1, bidirectional)
    one, other = model.encode(torch.tensor([[3, 4, 5]]))[0], model.encode(torch.tensor([[3, 4, 6]]))[0]
    assert torch.allclose(one[:, 0], other[:, 0], atol=1e-6) != bidirectional


@every_model
@torch.no_grad()
def test_stepping_gives_what_the_whole_forward_gives(cell: Any, attention: Any) -> None:
    model = small(cell, attention)
    wanted = model(BATCH.source, BATCH.target_in, BATCH.source_mask)
    state = model.start(BATCH.source, BATCH.source_mask)
    for t in range(BATCH.target_in.size(1)):
        logits = model.step(BATCH.target_in[:, t : t + 1], state)
        assert torch.allclose(logits.log_softmax(-1), wanted[:, t], atol=1e-5)
    state = model.start(BATCH.source, BATCH.source_mask)
    several = model.step(BATCH.target_in[:, :3], state)
    assert torch.allclose(several.log_softmax(-1), wanted[:, 2], atol=1e-5)


@every_model
@torch.no_grad()
def test_selected_rows_continue_as_if_they_had_always_been_there(cell: Any, attention: Any) -> None:
    model, rows = small(cell, attention), torch.tensor([2, 0, 0])
    state = model.start(BATCH.source, BATCH.source_mask)
    model.step(BATCH.target_in[:, :2], state)
    state.select(rows)
    found = model.step(BATCH.target_in[rows, 2:3], state)
    wanted = model(BATCH.source[rows], BATCH.target_in[rows], BATCH.source_mask[rows])[:, 2]
    assert torch.allclose(found.log_softmax(-1), wanted, atol=1e-5)


@torch.no_grad()
def test_selection_among_rows_of_one_source_leaves_the_source_alone() -> None:
    model, rows = small("gru", "additive"), torch.tensor([1, 0])
    source, target = torch.tensor([[3, 4, 5], [3, 4, 5]]), torch.tensor([[1, 6, 7], [1, 8, 9]])
    state = model.start(source)
    model.step(target[:, :2], state)
    memory = state.memory
    state.select(rows, sources=False)
    assert state.memory is memory
    found = model.step(target[rows, 2:], state)
    assert torch.allclose(found.log_softmax(-1), model(source, target)[rows, 2], atol=1e-5)


def test_dropout_acts_only_in_training() -> None:
    model = copy.deepcopy(small("gru", "dot"))
    assert torch.equal(model(BATCH.source, BATCH.target_in), model(BATCH.source, BATCH.target_in))
    model.train()
    assert not torch.equal(model(BATCH.source, BATCH.target_in), model(BATCH.source, BATCH.target_in))
    states = model.states(BATCH.source.repeat(50, 1), BATCH.target_in.repeat(50, 1))
    assert (states == 0).float().mean().item() == pytest.approx(26 / 256, abs=0.02)


# Attention weights


@pytest.mark.parametrize("attention", SCORES)
@torch.no_grad()
def test_attention_rows_sum_to_one_and_are_zero_on_padding(attention: Any) -> None:
    model = small("lstm", attention)
    (weights, _) = model.trace(BATCH.source, BATCH.target_in, BATCH.source_mask).attention["cross"][0]
    assert weights.shape == (3, 1, 5, 5)
    assert torch.allclose(weights.sum(-1), torch.ones(3, 1, 5), atol=1e-6)
    for row, mask in zip(weights, BATCH.source_mask, strict=True):
        assert bool((row[..., mask] > 0).all())
        assert not bool(row[..., ~mask].any())


@pytest.mark.parametrize("score", SCORES)
def test_a_query_with_nothing_to_attend_to_gets_zeros(score: Any) -> None:
    attention = RecurrentAttention(6, score)
    query, memory = torch.randn(2, 3, 6, requires_grad=True), torch.randn(2, 4, 6)
    mask = torch.tensor([[False] * 4, [True] * 4])
    out = attention(query, memory, attention.project_key(memory), mask)
    assert not bool(out[0].any())
    assert bool(out[1].any())
    out.sum().backward()
    assert query.grad is not None
    assert bool(query.grad.isfinite().all())


# Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"d_model": 0}, "d_model must be at least 1, not 0"),
        ({"source_vocab": 0}, "source_vocab must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"cell": "rnn"}, "cell must be one of gru, lstm, not 'rnn'"),
        ({"attention": "cosine"}, "attention must be one of none, dot, scaled-dot, bilinear, additive, not 'cosine'"),
        ({"tie": "source"}, "tie must be one of all, target, none, not 'source'"),
        ({"d_model": 15}, "bidirectional gives each direction half of d_model: 15 must be even"),
        ({"tie": "all", "target_vocab": 9}, "tie=all needs one joint vocabulary, but the source has 8 tokens and the target 9"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RecurrentConfig(**{"source_vocab": 8, "target_vocab": 8, **wrong})
    assert message in str(caught.value)


def test_an_odd_width_is_enough_for_one_direction() -> None:
    model = Recurrent(RecurrentConfig(5, 7, d_model=9, bidirectional=False))
    assert model(torch.tensor([[3, 4]]), torch.tensor([[1, 5, 6]])).shape == (1, 3, 7)


def test_ties_share_exactly_the_matrices_they_name() -> None:
    counts = {}
    for tie in ("all", "target", "none"):
        model = Recurrent(RecurrentConfig(VOCAB, VOCAB, d_model=8, tie=tie))
        assert (model.source_embedding.weight is model.output_weight) == (tie == "all")
        assert (model.target_embedding.weight is model.output_weight) == (tie != "none")
        counts[tie] = sum(parameter.numel() for parameter in model.parameters())
        assert sum(model.parameters_by_part().values()) == counts[tie]
    assert counts["target"] - counts["all"] == counts["none"] - counts["target"] == VOCAB * 8


@pytest.mark.parametrize("cell", CELLS)
def test_every_matrix_starts_xavier_uniform_and_every_bias_zero(cell: Any) -> None:
    torch.manual_seed(0)
    width, gates = 64, 4 if cell == "lstm" else 3
    model = Recurrent(RecurrentConfig(200, 300, cell, layers=2, d_model=width))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert not bool(parameter.any()), name
            continue
        parts = gates if "_l" in name else 2 if cell == "lstm" and "first" in name else 1
        for matrix in parameter.chunk(parts):
            bound = math.sqrt(6 / sum(matrix.shape))
            assert 0.9 * bound < matrix.abs().max().item() <= bound, name


# Training


@every_model
@pytest.mark.parametrize("bidirectional", [True, False])
def test_gradients_reach_every_parameter(cell: Any, attention: Any, bidirectional: bool) -> None:
    model = copy.deepcopy(small(cell, attention, 2, bidirectional)).train()
    label_smoothed_loss(*model.training_states(BATCH))[0].backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert silent == []


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_padding_gets_no_gradient(attention: Any) -> None:
    model = copy.deepcopy(small("gru", attention))
    label_smoothed_loss(*model.training_states(BATCH))[0].backward()
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.weight.grad is not None
        assert not bool(embedding.weight.grad[PAD].any())


def test_training_states_are_those_of_the_real_positions() -> None:
    model = small("lstm", "bilinear")
    states, weight, bias, answers = model.training_states(BATCH)
    assert answers.tolist() == [3, 3, EOS, 4, 5, 6, 7, EOS, 8, EOS]
    found = nn.functional.linear(states, weight, bias).log_softmax(-1)
    wanted = model(BATCH.source, BATCH.target_in, BATCH.source_mask, BATCH.target_mask)
    assert torch.allclose(found, wanted[BATCH.target_mask], atol=1e-5)


@every_model
def test_one_flat_vector_of_parameters_trains_the_model_as_its_own_would(cell: Any, attention: Any) -> None:
    plain = copy.deepcopy(small(cell, attention))
    model = copy.deepcopy(plain)
    before = plain(BATCH.source, BATCH.target_in, BATCH.source_mask)
    ours = FlatWeights(model, Processes(), {"betas": (0.9, 0.98), "eps": 1e-9})
    assert torch.allclose(model(BATCH.source, BATCH.target_in, BATCH.source_mask), before, atol=1e-6)
    theirs = torch.optim.Adam(plain.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(2):
        ours.clear()
        theirs.zero_grad()
        for one in (model, plain):
            label_smoothed_loss(*one.training_states(BATCH))[0].backward()
        ours.reduce(torch.zeros(4))
        ours.update(0.01, 1.0, 0.0)
        theirs.step()
    after, wanted = (one(BATCH.source, BATCH.target_in, BATCH.source_mask) for one in (model, plain))
    assert torch.allclose(after, wanted, atol=1e-5)
    assert (after - before).abs().max().item() > 0.01


@pytest.mark.parametrize("cell", CELLS)
def test_weights_by_name_make_the_same_model(cell: Any) -> None:
    model = small(cell, "additive")
    fresh = Recurrent(model.config).eval()
    load_weights(fresh, named_weights(model), "the test")
    assert torch.equal(fresh(BATCH.source, BATCH.target_in), model(BATCH.source, BATCH.target_in))


@every_model
def test_half_precision_gives_nearly_the_same_loss_and_finite_gradients(cell: Any, attention: Any) -> None:
    model = copy.deepcopy(small(cell, attention))
    exact = label_smoothed_loss(*model.training_states(BATCH))[0].item()
    with torch.autocast("cpu", torch.bfloat16):
        loss = label_smoothed_loss(*model.training_states(BATCH))[0]
    loss.backward()
    assert loss.item() == pytest.approx(exact, rel=0.05)
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


# Search


@every_model
def test_batch_composition_never_changes_what_is_written(cell: Any, attention: Any) -> None:
    model, limits = small(cell, attention), Limits(BOS, EOS, PAD, max_extra=6)

    def both(source: Tensor, mask: Tensor) -> list[list[Any]]:
        greedy = [[h] for h in greedy_search(model, source, mask, limits)]
        return [g + b for g, b in zip(greedy, beam_search(model, source, mask, limits, beam=3, n_best=3), strict=True)]

    together = both(BATCH.source, BATCH.source_mask)
    assert len({tuple(found[0].tokens) for found in together}) > 1
    for i, length in enumerate(BATCH.source_mask.sum(-1).tolist()):
        alone = both(BATCH.source[i : i + 1, :length], BATCH.source_mask[i : i + 1, :length])[0]
        assert [h.tokens for h in alone] == [h.tokens for h in together[i]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[i]], abs=1e-4)


@every_model
@torch.no_grad()
def test_a_hypothesis_has_the_log_probability_the_model_gives_it(cell: Any, attention: Any) -> None:
    model = small(cell, attention)
    found = beam_search(model, BATCH.source, BATCH.source_mask, Limits(BOS, EOS, PAD, max_extra=50), beam=4)
    for i, (best,) in enumerate(found):
        source = BATCH.source[i : i + 1], BATCH.source_mask[i : i + 1]
        out = model.project(model.states(source[0], torch.tensor([[BOS, *best.tokens]]), source[1]))[0]
        out[:, [PAD, BOS]] = -math.inf
        ended = len(best.tokens) < int(source[1].sum()) + 50
        answers = [*best.tokens, EOS] if ended else best.tokens
        total = sum(out.log_softmax(-1)[t, token].item() for t, token in enumerate(answers))
        assert best.log_probability == pytest.approx(total, abs=1e-3)


# That it learns


def fit(model: Recurrent, batches: list[Pairs], rate: float) -> None:
    """Adam over the batches, the rate rising to its peak and falling to zero."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    model.train()
    for step, batch in enumerate(batches, 1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / 20, 2 * (len(batches) + 1 - step) / len(batches))
        loss, _ = label_smoothed_loss(*model.training_states(batch))
        optimizer.zero_grad()
        (loss / batch.target_mask.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def learned(attention: Any, cell: Any, lengths: tuple[int, int], task: Callable[[list[int]], list[int]]) -> float:
    """Negative log-likelihood of a token of sentences never trained on, vocabulary 8."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)

    def batch(size: int) -> Pairs:
        chosen = torch.randint(lengths[0], lengths[1] + 1, (size,), generator=generator).tolist()
        rows = [torch.randint(3, 8, (length,), generator=generator).tolist() for length in chosen]
        return Pairs.of(rows, [task(row) for row in rows])

    model = Recurrent(RecurrentConfig(8, 8, cell, attention, d_model=32, dropout=0.0))
    fit(model, [batch(64) for _ in range(80)], 0.015)
    held_out = batch(300)
    with torch.no_grad():
        nll = label_smoothed_loss(*model.training_states(held_out))[1]
    return nll.item() / int(held_out.target_mask.sum())


@pytest.mark.parametrize(("cell", "attention"), [("gru", "additive"), ("lstm", "dot")])
def test_reversing_short_sentences_is_learned(cell: Any, attention: Any) -> None:
    assert learned(attention, cell, (1, 5), lambda row: row[::-1]) < 0.1


def test_one_fixed_vector_holds_a_long_sentence_worse_than_attention_does() -> None:
    with_attention, without = (learned(attention, "lstm", (8, 10), list) for attention in ("bilinear", "none"))
    assert with_attention < 0.5 * without
