"""BERT: invariants of its output, its heads and poolings, its settings, and that it learns."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedful.errors import UsageError
from heedful.models.bert import Bert, BertConfig
from heedful.nn.loss import label_smoothed_loss
from heedful.nn.masks import padding_mask

VOCAB, D = 19, 16
SIZES: dict[str, Any] = {"layers": 2, "d_model": D, "d_ff": 32, "heads": 4, "max_positions": 12}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"pooling": "mean"},
    {"pooling": "attention"},
    {"head": "pretraining"},
    {"head": "sequence", "classes": 3},
    {"head": "sequence", "classes": 3, "pooling": "mean"},
    {"head": "sequence", "classes": 3, "pooling": "attention"},
    {"head": "token", "classes": 5, "activation": "relu"},
    {"attention_kind": "window", "window": 2},
    {"attention_kind": "longformer", "window": 1, "global_tokens": 2, "global_projections": True, "global_question": True},
    {"attention_kind": "bigbird", "window": 1, "attention_block": 1, "random_blocks": 2, "head": "sequence", "classes": 3},
    {"attention_kind": "linformer", "projected_length": 4},
    {"attention_kind": "reformer", "hash_buckets": 4, "hash_chunk": 1},
    *({"positions": kind, "max_distance": 2} for kind in ("sinusoidal", "linear-bias", "relative", "rotary", "none")),
]
POSITIONS = range(len(VARIANTS) - 5, len(VARIANTS))  # those variants that differ in their positions
row = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)


@cache
def small(variant: int) -> Bert:
    """A small random model in eval mode, with weights large enough that every part matters."""
    torch.manual_seed(variant)
    model = Bert(BertConfig(VOCAB, **SIZES, **VARIANTS[variant])).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def answer(model: Bert, *inputs: Tensor | None) -> list[Tensor]:
    """The output of the model as a list, whatever its head."""
    out = model(*inputs)
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize(
    ("variant", "shapes"),
    [
        (0, [(2, 7, D)]),
        (3, [(2, 7, VOCAB), (2, 2)]),
        (4, [(2, 3)]),
        (5, [(2, 3)]),
        (6, [(2, 3)]),
        (7, [(2, 7, 5)]),
    ],
)
def test_every_head_answers_in_its_shape(variant: int, shapes: list[tuple[int, ...]]) -> None:
    tokens = torch.randint(0, VOCAB, (2, 7))
    assert [out.shape for out in answer(small(variant), tokens)] == shapes


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(VARIANTS) - 1), st.lists(row, min_size=1, max_size=4), st.integers(0, VOCAB - 1), st.data())
@torch.no_grad()
def test_padding_never_changes_the_output(variant: int, rows: list[list[int]], filler: int, data: st.DataObject) -> None:
    model = small(variant)
    longest = max(map(len, rows))
    tokens = torch.tensor([one + [filler] * (longest - len(one)) for one in rows])
    segments = (torch.arange(longest) >= data.draw(st.integers(0, longest))).long().expand(len(rows), -1)
    mask = padding_mask(torch.tensor([len(one) for one in rows]))
    together = answer(model, tokens, segments, mask)
    for i, one in enumerate(rows):
        for part, alone in zip(together, answer(model, torch.tensor([one]), segments[:1, : len(one)]), strict=True):
            # One answer per sequence, or one per real token.
            found = part[i, : len(one)] if part.dim() == 3 else part[i]
            assert torch.allclose(found, alone[0], atol=1e-5, rtol=0)


@torch.no_grad()
def test_every_token_sees_both_ways() -> None:
    model, tokens = small(0), torch.randint(0, VOCAB, (1, 6))
    for at in range(6):
        changed = tokens.clone()
        changed[0, at] = (changed[0, at] + 1) % VOCAB
        moved = (model.states(tokens) - model.states(changed)).abs().amax(-1)[0]
        assert bool((moved > 1e-6).all())


@torch.no_grad()
def test_the_order_and_the_segments_of_tokens_matter_and_no_segments_means_the_first() -> None:
    model, tokens = small(4), torch.randint(0, VOCAB, (2, 6))
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]]).expand(2, -1)
    assert torch.equal(model(tokens), model(tokens, torch.zeros_like(tokens)))
    assert not torch.allclose(model(tokens), model(tokens, segments), atol=1e-4)
    assert not torch.allclose(model(tokens), model(tokens.flip(1)), atol=1e-4)


@pytest.mark.parametrize("variant", POSITIONS)
@torch.no_grad()
def test_the_order_of_tokens_matters_with_every_kind_of_positions_but_none(variant: int) -> None:
    model, tokens = small(variant), torch.tensor([[3, 4, 5, 6, 7]])
    turned = torch.tensor([[3, 6, 5, 4, 7]])
    same = torch.allclose(model.states(tokens)[:, 0], model.states(turned)[:, 0], atol=1e-5)
    assert same == (model.config.positions == "none")


@torch.no_grad()
def test_pooled_vectors_are_what_their_names_say() -> None:
    tokens, mask = torch.randint(0, VOCAB, (3, 6)), padding_mask(torch.tensor([6, 2, 4]))
    cls, mean, attention, by_class = (small(variant) for variant in (0, 1, 2, 6))
    states = cls.states(tokens, None, mask)
    assert torch.allclose(cls.pooled(states, mask), torch.tanh(cls.pooler(states[:, 0])))
    states = mean.states(tokens, None, mask)
    assert torch.allclose(mean.pooled(states, mask)[1], states[1, :2].mean(0), atol=1e-6)
    assert attention.pooled(attention.states(tokens, None, mask), mask).shape == (3, D)
    assert by_class.pooled(by_class.states(tokens, None, mask), mask).shape == (3, 3, D)


@torch.no_grad()
def test_with_attention_pooling_each_class_is_scored_by_its_own_query() -> None:
    torch.manual_seed(0)
    model = Bert(BertConfig(VOCAB, **SIZES, head="sequence", classes=3, pooling="attention")).eval()
    tokens = torch.randint(0, VOCAB, (2, 6))
    before = model(tokens)
    model.pooling.queries[1] += 3.0
    moved = (model(tokens) - before).abs() > 1e-7
    assert moved.tolist() == [[False, True, False]] * 2


def test_masked_states_give_the_loss_of_the_chosen_positions() -> None:
    model = small(3)
    tokens, targets = torch.randint(0, VOCAB, (3, 8)), torch.randint(0, VOCAB, (3, 8))
    mask = padding_mask(torch.tensor([8, 5, 7]))
    where = (torch.rand(3, 8) < 0.4) & mask
    states = model.states(tokens, None, mask)
    _, nll = label_smoothed_loss(*model.masked_states(states, where), targets[where])
    logits, follows = model(tokens, None, mask)
    assert nll.item() == pytest.approx(F.cross_entropy(logits[where], targets[where], reduction="sum").item(), rel=1e-5)
    assert torch.equal(model.next_sentence_logits(states), follows)


def test_the_decoder_of_masked_tokens_is_the_embedding() -> None:
    model = small(3)
    _, weight, _ = model.masked_states(torch.zeros(1, 1, D), torch.ones(1, 1, dtype=torch.bool))
    assert weight is model.embedding.weight
    head, transform = VOCAB + D * D + D + 2 * D, 2 * D + 2  # bias, dense, norm; next sentence
    bodies = [sum(small(variant).parameters_by_part().values()) for variant in (0, 3)]
    assert bodies[1] - bodies[0] == head + transform


def test_a_text_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(UsageError, match="13 tokens are more than the model's max_positions of 12"):
        small(0)(torch.zeros(1, 13, dtype=torch.long))


def test_a_model_of_tokens_has_no_vector_of_the_whole() -> None:
    with pytest.raises(UsageError, match="head=token"):
        small(7).pooled(torch.zeros(1, 2, D))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vocab": 0}, "vocab must be at least 1, not 0"),
        ({"segments": 0}, "segments must be at least 1, not 0"),
        ({"d_model": 30, "heads": 4}, "d_model 30 is not divisible by heads 4"),
        ({"attention_dropout": 1.5}, "attention_dropout must be at least 0 and below 1, not 1.5"),
        ({"head": "tail"}, "head must be one of none, pretraining, sequence, token, not 'tail'"),
        ({"pooling": "max"}, "pooling must be one of cls, mean, attention, not 'max'"),
        ({"head": "sequence"}, "head=sequence needs classes of at least 1, not 0"),
        ({"classes": 3}, "head=none has no classes, but classes is 3; use head=sequence or head=token"),
        ({"head": "pretraining", "pooling": "mean"}, "head=pretraining leaves no choice of pooling"),
        ({"head": "token", "classes": 2, "pooling": "attention"}, "head=token leaves no choice of pooling"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        BertConfig(**{"vocab": 8, **SIZES, **wrong})
    assert message in str(caught.value)


def learn(model: Bert, inputs: Tensor, labels: Tensor, steps: int = 120) -> float:
    """The share of right answers after some training on all of them."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, -2), labels.flatten()).backward()
        optimizer.step()
    return (model.eval()(inputs).argmax(-1) == labels).float().mean().item()


@pytest.mark.parametrize("pooling", ["cls", "mean", "attention"])
def test_a_small_model_learns_which_token_is_more_frequent(pooling: Any) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(1, 3, (48, 7))
    tokens[:, 0] = 0  # [CLS]
    labels = (tokens[:, 1:] == 2).sum(1) > 3
    model = Bert(BertConfig(VOCAB, **SIZES, head="sequence", classes=2, pooling=pooling, dropout=0.0))
    assert learn(model, tokens, labels.long()) > 0.95


def test_a_small_model_learns_which_tokens_occurred_before() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 4, (32, 5))
    labels = torch.tensor([[int(token in one[:i]) for i, token in enumerate(one)] for one in tokens.tolist()])
    model = Bert(BertConfig(VOCAB, **SIZES, head="token", classes=2, dropout=0.0))
    assert learn(model, tokens, labels) > 0.9
