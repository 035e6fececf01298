"""The language model: invariants of its output, decoding step by step, its settings, and that it learns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.decoding.search import beam_search, greedy_search
from heedful.decoding.sentence import Limits
from heedful.errors import UsageError
from heedful.models.gpt import GPT, GPTConfig
from heedful.nn.loss import label_smoothed_loss
from heedful.nn.masks import padding_mask

VOCAB = 17
PAD, BOS, EOS = 0, 1, 2
SIZES: dict[str, Any] = {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 4, "context": 12}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "post", "activation": "relu", "tie": False},
    {"positions": "sinusoidal", "activation": "silu"},
    {"positions": "linear-bias"},
    {"positions": "relative", "max_distance": 2},
    {"positions": "rotary"},
    {"attention_kind": "window", "window": 2},
    {"attention_kind": "window", "window": 3, "positions": "relative", "max_distance": 2},
    {"attention_kind": "longformer", "window": 2, "global_tokens": 2, "positions": "rotary"},
    {"attention_kind": "bigbird", "window": 1, "attention_block": 2, "random_blocks": 1, "positions": "linear-bias"},
    {"attention_kind": "reformer", "hash_buckets": 2, "hash_chunk": 2, "positions": "rotary"},
]
variants = st.integers(0, len(VARIANTS) - 1)
text = st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=12)


@cache
def small(variant: int) -> GPT:
    """A small random model in eval mode, with weights large enough that every part matters."""
    torch.manual_seed(variant)
    model = GPT(GPTConfig(VOCAB, **SIZES, **VARIANTS[variant])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


# What it is


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_the_output_is_a_log_probability_of_every_token(variant: int) -> None:
    out = small(variant)(torch.randint(0, VOCAB, (2, 5)))
    assert out.shape == (2, 5, VOCAB)
    assert torch.allclose(out.exp().sum(-1), torch.ones(2, 5), atol=1e-5)


def test_an_untrained_model_predicts_every_token_with_about_the_same_probability() -> None:
    torch.manual_seed(0)
    out = GPT(GPTConfig(1000, layers=3, d_model=64, d_ff=128, heads=4)).eval()(torch.randint(0, 1000, (4, 50)))
    assert -out.mean().item() == pytest.approx(math.log(1000), abs=0.05)


def test_projections_into_the_residual_stream_start_smaller_the_deeper_the_model() -> None:
    torch.manual_seed(0)
    layer: Any = GPT(GPTConfig(50, layers=8, d_model=64, d_ff=256, heads=4)).encoder.layers[5]
    for block in (layer.self_attention, layer.feed_forward):
        assert block.project_in.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert block.project_out.weight.std().item() == pytest.approx(0.02 / 4, rel=0.1)  # √(2·8) = 4


def test_a_tied_output_is_the_embedding_and_has_no_bias() -> None:
    tied, untied = small(0), small(1)
    assert tied.output_weight is tied.embedding.weight
    assert untied.output_weight is not untied.embedding.weight
    more = sum(untied.parameters_by_part().values()) - sum(
        GPT(GPTConfig(VOCAB, **SIZES, norm="post")).parameters_by_part().values()
    )
    assert more == VOCAB * 16
    assert not bool(tied.project(torch.zeros(1, 16)).any())


# What never changes an output


@settings(max_examples=30, deadline=None)
@given(variants, text, st.data())
@torch.no_grad()
def test_a_future_token_never_changes_an_earlier_output(variant: int, tokens: list[int], data: st.DataObject) -> None:
    model = small(variant)
    at = data.draw(st.integers(1, len(tokens) - 1))
    changed = [*tokens[:at], (tokens[at] + data.draw(st.integers(1, VOCAB - 1))) % VOCAB, *tokens[at + 1 :]]
    before, after = model(torch.tensor([tokens])), model(torch.tensor([changed]))
    assert torch.allclose(before[:, :at], after[:, :at], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, at], after[:, at], atol=1e-6, rtol=0)


@settings(max_examples=20, deadline=None)
@given(variants, st.lists(text, min_size=1, max_size=4), st.integers(0, VOCAB - 1))
@torch.no_grad()
def test_padding_never_changes_the_output(variant: int, rows: list[list[int]], filler: int) -> None:
    model = small(variant)
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [filler] * (longest - len(row)) for row in rows])
    mask = padding_mask(torch.tensor([len(row) for row in rows]))
    masked, unmasked = model(tokens, mask), model(tokens)  # on the right, the causal mask hides the padding
    for i, row in enumerate(rows):
        alone = model(torch.tensor([row]))[0]
        assert torch.allclose(masked[i, : len(row)], alone, atol=1e-5, rtol=0)
        assert torch.allclose(unmasked[i, : len(row)], alone, atol=1e-5, rtol=0)


# Writing


@settings(max_examples=30, deadline=None)
@given(variants, text, st.data())
@torch.no_grad()
def test_step_by_step_equals_the_whole(variant: int, row: list[int], data: st.DataObject) -> None:
    model = small(variant)
    tokens = torch.tensor([row, row[::-1]])
    whole = model.project(model.states(tokens))
    at = data.draw(st.integers(0, len(row) - 1))  # length of the prompt
    state = model.start(tokens[:, :at])
    assert state.position == at
    while at < len(row):
        size = data.draw(st.integers(1, len(row) - at))
        logits = model.step(tokens[:, at : at + size], state)
        at += size
        assert state.position == at
        assert torch.allclose(logits, whole[:, at - 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@torch.no_grad()
def test_text_longer_than_the_context_continues_from_the_last_half_of_it(variant: int) -> None:
    model = small(variant)
    torch.manual_seed(3)
    tokens = torch.randint(0, VOCAB, (2, 40))
    state = model.start(tokens[:, :0])
    seen = 0
    for at in range(40):
        logits = model.step(tokens[:, at : at + 1], state)
        seen = seen + 1 if seen < 12 else 6  # when full, it continues from the last six, the newest included
        assert state.position == seen
        window = tokens[:, at + 1 - seen : at + 1]
        assert torch.equal(state.tokens, window)
        assert torch.allclose(logits, model.project(model.states(window)[:, -1]), atol=1e-5, rtol=0)


@torch.no_grad()
def test_only_the_end_of_a_prompt_longer_than_the_context_counts() -> None:
    model, prompt = small(0), torch.randint(0, VOCAB, (2, 31))
    state = model.start(prompt)
    assert torch.equal(state.tokens, prompt[:, -6:])
    found = model.step(torch.tensor([[3], [4]]), state)
    expected = model.step(torch.tensor([[3], [4]]), model.start(prompt[:, -6:]))
    assert torch.allclose(found, expected, atol=1e-6)


@torch.no_grad()
def test_a_context_of_one_token_still_writes() -> None:
    model = GPT(GPTConfig(VOCAB, **{**SIZES, "context": 1})).eval()
    state = model.start(torch.tensor([[5]]))
    assert torch.allclose(model.step(torch.tensor([[7]]), state), model.project(model.states(torch.tensor([[7]]))[:, -1]))


@pytest.mark.parametrize("sources", [True, False])
@torch.no_grad()
def test_selected_rows_continue_as_if_they_had_been_alone(sources: bool) -> None:
    model, prompts = small(0), torch.randint(0, VOCAB, (3, 7))
    state, rows = model.start(prompts), torch.tensor([2, 0, 0, 1])
    state.select(rows, sources=sources)
    alone = model.start(prompts[rows])
    for _ in range(10):  # past the context too
        newest = torch.randint(0, VOCAB, (4, 1))
        assert torch.allclose(model.step(newest, state), model.step(newest, alone), atol=1e-5)


def test_search_writes_with_it_beyond_the_context() -> None:
    model = small(0)
    prompt = torch.tensor([[5, 6, 7], [8, 9, 3]])
    mask = torch.ones_like(prompt, dtype=torch.bool)
    limits = Limits(BOS, VOCAB, PAD, max_extra=30)  # an end token that is never generated
    found = greedy_search(model, prompt, mask, Limits(BOS, EOS, PAD, max_extra=30))
    assert all(len(one.tokens) <= 33 for one in found)
    endless = greedy_search(model, prompt, mask, limits)
    assert [len(one.tokens) for one in endless] == [33, 33]
    beams = beam_search(model, prompt, mask, limits, beam=1, alpha=0.0)
    assert [best[0].tokens for best in beams] == [one.tokens for one in endless]


def test_prompts_of_unequal_length_are_refused() -> None:
    tokens, mask = torch.ones(2, 3, dtype=torch.long), torch.tensor([[1, 1, 1], [1, 1, 0]])
    with pytest.raises(UsageError, match="must be equally long"):
        small(0).start(tokens, mask)


def test_more_tokens_than_learned_positions_are_refused_and_other_positions_have_no_limit() -> None:
    tokens = torch.zeros(1, 13, dtype=torch.long)
    with pytest.raises(UsageError, match="13 tokens are longer than the model's context of 12"):
        small(0)(tokens)
    for variant in (2, 3, 4, 5):
        assert small(variant)(tokens).shape == (1, 13, VOCAB)


# Its settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vocab": 0}, "vocab must be at least 1, not 0"),
        ({"context": 0}, "context must be at least 1, not 0"),
        ({"d_model": 30, "heads": 4}, "d_model 30 is not divisible by heads 4"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"activation": "swish"}, "activation must be one of relu, gelu, gelu-tanh, silu, not 'swish'"),
        ({"positions": "sinus"}, "positions must be one of sinusoidal, learned"),
        ({"norm": "middle"}, "norm must be one of post, pre, not 'middle'"),
        ({"positions": "rotary", "d_model": 12}, "d_k 3 must be even"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        GPTConfig(**{"vocab": 8, **SIZES, **wrong})
    assert message in str(caught.value)


# Training


@dataclass
class Rows:
    """A batch of text."""

    tokens: Tensor
    targets: Tensor
    mask: Tensor


def test_the_loss_is_over_the_marked_positions_only() -> None:
    model = small(0)
    tokens, targets = torch.randint(0, VOCAB, (3, 8)), torch.randint(0, VOCAB, (3, 8))
    mask = torch.rand(3, 8) < 0.5
    _, nll = label_smoothed_loss(*model.training_states(Rows(tokens, targets, mask)))
    expected = -model(tokens).gather(-1, targets[:, :, None]).squeeze(-1)[mask].sum()
    assert nll.item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_small_model_learns_to_count() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(VOCAB, **{**SIZES, "d_model": 32, "dropout": 0.0}))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        rows = (torch.randint(0, VOCAB, (16, 1)) + torch.arange(9)) % VOCAB
        batch = Rows(rows[:, :-1], rows[:, 1:], torch.ones(16, 8, dtype=torch.bool))
        loss, _ = label_smoothed_loss(*model.training_states(batch))
        optimizer.zero_grad()
        (loss / 128).backward()
        optimizer.step()
    model.eval()
    prompt, mask = torch.tensor([[4, 5]]), torch.tensor([[True, True]])
    limits = Limits(bos=6, eos=12, pad=0, max_extra=20)  # the begin token continues the text: 4 5 6 …
    assert greedy_search(model, prompt, mask, limits)[0].tokens == [7, 8, 9, 10, 11]
