"""A trace gives the same states as the ordinary forward pass, with the attention weights that produced them."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from heedful.models.bert import Bert, BertConfig
from heedful.models.gpt import GPT, GPTConfig
from heedful.models.recurrent import Recurrent, RecurrentConfig
from heedful.models.seq2seq import Reads, Seq2Seq, Seq2SeqConfig
from heedful.models.vit import ViT, ViTConfig
from heedful.nn.attention.base import AttentionWeights
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.pooling import Pooling
from heedful.nn.positions import PositionKind
from heedful.nn.recurrent import Score
from heedful.nn.residual import Norm

torch.manual_seed(0)
VOCAB, B, L, T, D, H = 17, 3, 8, 6, 24, 4
SIZES: dict[str, Any] = {"layers": 2, "d_model": D, "d_ff": 48, "heads": H}
SOURCE, TARGET = torch.randint(0, VOCAB, (B, L)), torch.randint(0, VOCAB, (B, T))
SOURCE_MASK, TARGET_MASK = padding_mask(torch.tensor([L, 5, 2])), padding_mask(torch.tensor([T, 4, 1]))
every_position = pytest.mark.parametrize("positions", get_args(PositionKind))
every_norm = pytest.mark.parametrize("norm", get_args(Norm))


def shaken(model: Any) -> Any:
    """In eval mode, with weights large enough that every part matters."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-5, rtol=0)


def check(found: list[AttentionWeights], layers: int, heads: int, mask: Tensor) -> None:
    """Weights are the softmax of the scores wherever `mask` (B, Lq, Lk) allows it, and zero elsewhere."""
    assert len(found) == layers
    for weights, scores in found:
        assert weights.shape == scores.shape == (mask.size(0), heads, *mask.shape[1:])
        expected = scores.masked_fill(~mask[:, None], -math.inf).softmax(-1)
        assert close(weights, expected)
        assert bool(scores.isfinite().all())


def over_queries(mask: Tensor, queries: int) -> Tensor:
    """(B, Lk) → (B, Lq, Lk)"""
    return mask[:, None].expand(-1, queries, -1)


@every_position
@every_norm
@pytest.mark.parametrize("masked_target", [False, True])
def test_a_trace_of_the_transformer_equals_its_forward_pass(positions: Any, norm: Any, masked_target: bool) -> None:
    options = {"positions": positions, "norm": norm, "max_distance": 3, "max_positions": 5, "d_k": 6, "d_v": 10}
    model = shaken(Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **SIZES, decoder_layers=3, **options)))
    target_mask = TARGET_MASK if masked_target else None  # without a mask, the fused kernel applies the causal mask
    trace = model.trace(SOURCE, TARGET, SOURCE_MASK, target_mask)
    assert close(trace.states, model.states(SOURCE, TARGET, SOURCE_MASK, target_mask))
    assert close(model.project(trace.states).log_softmax(-1), model(SOURCE, TARGET, SOURCE_MASK, target_mask))
    past = causal_mask(T).expand(B, -1, -1)
    check(trace.attention["encoder"], 2, H, over_queries(SOURCE_MASK, L))
    check(trace.attention["decoder"], 3, H, past & over_queries(TARGET_MASK, T) if masked_target else past)
    check(trace.attention["cross"], 3, H, over_queries(SOURCE_MASK, T))
    assert [len(trace.hidden["encoder"]), len(trace.hidden["decoder"])] == [1 + 2, 1 + 3]
    assert torch.equal(trace.hidden["decoder"][0], model.target_embedding(TARGET))
    assert close(model.decoder.norm(trace.hidden["decoder"][-1]), trace.states)
    assert close(model.encoder.norm(trace.hidden["encoder"][-1]), model.encode(SOURCE, SOURCE_MASK)[-1])


@pytest.mark.parametrize("reads", get_args(Reads))
@every_norm
def test_a_trace_follows_whichever_encoder_layers_are_read(reads: Any, norm: Any) -> None:
    model = shaken(Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **SIZES, reads=reads, norm=norm)))
    assert close(model.trace(SOURCE, TARGET, SOURCE_MASK).states, model.states(SOURCE, TARGET, SOURCE_MASK))


@every_position
@every_norm
@pytest.mark.parametrize("masked", [False, True])
def test_a_trace_of_a_gpt_equals_its_forward_pass(positions: Any, norm: Any, masked: bool) -> None:
    model = shaken(GPT(GPTConfig(VOCAB, **SIZES, positions=positions, norm=norm, max_distance=3, context=12)))
    mask = TARGET_MASK if masked else None
    trace = model.trace(TARGET, mask)
    assert close(trace.states, model.states(TARGET, mask))
    past = causal_mask(T).expand(B, -1, -1)
    assert list(trace.attention) == ["decoder"]
    check(trace.attention["decoder"], 2, H, past & over_queries(TARGET_MASK, T) if masked else past)
    assert close(model.encoder.norm(trace.hidden["decoder"][-1]), trace.states)


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_a_trace_of_a_bert_equals_its_forward_pass(pooling: Any) -> None:
    model = shaken(Bert(BertConfig(VOCAB, **SIZES, head="sequence", classes=3, pooling=pooling)))
    segments = (SOURCE > 8).long()
    trace = model.trace(SOURCE, segments, SOURCE_MASK)
    assert close(trace.states, model.states(SOURCE, segments, SOURCE_MASK))
    check(trace.attention["encoder"], 2, H, over_queries(SOURCE_MASK, L))
    assert torch.equal(trace.hidden["encoder"][-1], trace.states)  # post-norm: nothing follows the last layer
    assert ("pooling" in trace.attention) == (pooling == "attention")
    if pooling == "attention":
        check(trace.attention["pooling"], 1, H, over_queries(SOURCE_MASK, 3))


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_a_trace_of_a_vision_transformer_equals_its_forward_pass(pooling: Any) -> None:
    model = shaken(ViT(ViTConfig(5, **SIZES, image_size=8, patch=2, pooling=pooling)))
    images = torch.rand(2, 3, 8, 8)
    trace = model.trace(images)
    assert close(trace.states, model.states(images))
    check(trace.attention["encoder"], 2, H, torch.ones(2, 17, 17, dtype=torch.bool))
    assert close(model.encoder.norm(trace.hidden["encoder"][-1]), trace.states)
    if pooling == "attention":
        check(trace.attention["pooling"], 1, H, torch.ones(2, 5, 16, dtype=torch.bool))  # every class over every patch


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("attention", get_args(Score))
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_trace_of_a_recurrent_model_equals_its_forward_pass(cell: Any, attention: Any, bidirectional: bool) -> None:
    model = shaken(Recurrent(RecurrentConfig(VOCAB, VOCAB, cell, attention, 2, D, bidirectional)))
    trace = model.trace(SOURCE, TARGET, SOURCE_MASK)
    assert close(trace.states, model.states(SOURCE, TARGET, SOURCE_MASK))
    assert list(trace.attention) == ([] if attention == "none" else ["cross"])
    if attention != "none":
        check(trace.attention["cross"], 1, 1, over_queries(SOURCE_MASK, T))
    assert len(trace.hidden["encoder"]) == 1 + 2
    assert close(trace.hidden["encoder"][-1], model.encode(SOURCE, SOURCE_MASK)[0])
    assert torch.equal(trace.hidden["decoder"][-1], trace.states)


def test_tracing_keeps_nothing_on_the_model_and_no_graph() -> None:
    model = shaken(Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **SIZES)))

    def tensors() -> int:
        return sum(isinstance(value, Tensor) for module in model.modules() for value in vars(module).values())

    before, names = tensors(), [name for name, _ in model.named_buffers()]
    trace = model.trace(SOURCE, TARGET)
    assert (tensors(), [name for name, _ in model.named_buffers()]) == (before, names)
    assert not trace.states.requires_grad


def test_the_hidden_states_of_a_decoder_can_be_read_as_logits() -> None:
    """The "logit lens": the last hidden state, normalised and projected, gives the model's own prediction."""
    model = shaken(GPT(GPTConfig(VOCAB, **SIZES, context=12)))
    logits = [model.project(model.encoder.norm(hidden)) for hidden in model.trace(TARGET).hidden["decoder"]]
    assert close(logits[-1].log_softmax(-1), model(TARGET))
