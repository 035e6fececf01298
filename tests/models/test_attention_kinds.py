"""Every attention kind in every Transformer model: gradients reach all weights, weights can be saved, errors say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.bert import Bert, BertConfig
from heedful.models.gpt import GPT, GPTConfig
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.vit import ViT, ViTConfig
from heedful.models.weights import load_weights, named_weights
from heedful.nn.attention.kinds import AttentionKind
from heedful.nn.positions import PositionKind

KINDS = get_args(AttentionKind)
SIZES: dict[str, Any] = {
    "layers": 2, "d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.0, "window": 2, "attention_block": 2, "random_blocks": 1,
    "projected_length": 5, "hash_buckets": 4, "hash_chunk": 3,
}  # fmt: skip
LENGTH = 23
TOKENS = torch.randint(0, 12, (2, LENGTH), generator=torch.Generator().manual_seed(0))


def seq2seq(kind: AttentionKind, **more: Any) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    config = Seq2SeqConfig(
        12, 12, **SIZES, attention_kind=kind, decoder_attention_kind="full" if kind == "linformer" else None, **more
    )
    return Seq2Seq(config), lambda model: model(TOKENS, TOKENS, torch.ones(2, LENGTH), None)


def gpt(kind: AttentionKind, **more: Any) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    return GPT(GPTConfig(12, **SIZES, attention_kind=kind, **more)), lambda model: model(TOKENS)


def bert(kind: AttentionKind, **more: Any) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    return Bert(BertConfig(12, **SIZES, attention_kind=kind, **more)), lambda model: model(TOKENS)


def vit(kind: AttentionKind, **more: Any) -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    images = torch.rand(2, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    config = ViTConfig(4, **SIZES, image_size=20, patch=4, pooling="mean", attention_kind=kind, **more)
    return ViT(config), lambda model: model(images)


MODELS = [seq2seq, gpt, bert, vit]
CASES = [(build, kind) for build in MODELS for kind in KINDS if (build, kind) != (gpt, "linformer")]


@pytest.mark.parametrize(("build", "kind"), CASES)
def test_each_kind_trains_every_weight_and_is_the_same_after_loading(build: Any, kind: AttentionKind) -> None:
    torch.manual_seed(0)
    model, run = build(kind)
    run(model).square().mean().backward()
    for name, parameter in model.named_parameters():
        unused = "pooler" in name or "segments" in name or "cls" in name
        assert unused or (parameter.grad is not None and bool(parameter.grad.isfinite().all())), name
    if kind == "linformer":
        assert float(model.encoder.layers[0].self_attention.attend.project_keys.grad.abs().max()) > 0
    other, _ = build(kind)
    model, other = model.eval(), other.eval()
    load_weights(other, named_weights(model), "the weights")
    with torch.no_grad():
        assert torch.equal(run(other), run(model))
        assert torch.equal(run(model), run(model))


@pytest.mark.parametrize("positions", get_args(PositionKind))
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_works_with_every_kind_of_positions(kind: AttentionKind, positions: PositionKind) -> None:
    torch.manual_seed(0)
    model, run = seq2seq(kind, positions=positions, max_distance=4)
    run(model).square().mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_that_are_looked_at_are_those_of_the_output(kind: AttentionKind) -> None:
    torch.manual_seed(0)
    model, _ = bert(kind)
    assert isinstance(model, Bert)
    trace = model.eval().trace(TOKENS)
    torch.testing.assert_close(trace.states, model(TOKENS), atol=1e-5, rtol=0)
    for weights, _ in trace.attention["encoder"]:
        assert weights.shape == (2, 2, LENGTH, LENGTH)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, LENGTH))


def test_a_linformer_that_would_see_the_future_is_refused_with_the_reason_and_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"linformer has no causal form: it projects keys of the whole sequence, later ones too"):
        GPTConfig(12, attention_kind="linformer")
    with pytest.raises(UsageError, match="set decoder_attention_kind to full, window, longformer, bigbird, reformer"):
        Seq2SeqConfig(12, 12, attention_kind="linformer")
    Seq2SeqConfig(12, 12, attention_kind="linformer", decoder_attention_kind="window")


def test_a_source_longer_than_the_projections_of_a_linformer_is_refused() -> None:
    model, run = seq2seq("linformer", max_positions=LENGTH - 1)
    with pytest.raises(UsageError, match=r"an input of 23 positions is too long: .* has parameters for 22 \(max_positions\)"):
        run(model)


def test_an_odd_number_of_buckets_is_refused() -> None:
    with pytest.raises(UsageError, match="hash_buckets must be even, or 1"):
        GPTConfig(12, hash_buckets=7)


def test_reformer_layers_hash_differently_and_have_no_projection_of_keys() -> None:
    model, _ = bert("reformer")
    assert isinstance(model, Bert)
    layers: list[Any] = list(model.encoder.layers)
    first, second = (layer.self_attention for layer in layers)
    assert first.project_in.out_features == 32  # queries and values
    key = torch.randn(1, 2, 9, 8)
    assert not torch.equal(first.attend.hashes(key, None), second.attend.hashes(key, None))


def test_the_question_is_global_without_its_separator() -> None:
    config = BertConfig(12, **SIZES, attention_kind="longformer", global_question=True)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    chosen = Bert(config).global_tokens(segments, None)
    assert chosen is not None
    assert chosen.tolist() == [[True, True, False, False, False, False], [False] * 6]
