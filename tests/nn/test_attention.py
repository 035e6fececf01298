"""Attention against PyTorch's own, the fused kernel against the plain formula, and queries with nothing to attend to."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from heedful.models.seq2seq import make_model
from heedful.nn.attention.full import FullAttention, scaled_dot_product_attention
from heedful.nn.attention.kinds import ATTENTION_KINDS, AttentionKind, AttentionSettings, build_attention
from heedful.nn.fast.attention import fused_attention
from heedful.nn.masks import causal_mask, over_keys, padding_mask
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.positions import LinearBias, PositionKind

POSITIONS = get_args(PositionKind)

TOLERANCE = 1e-5


def the_same_in_pytorch(ours: MultiHeadAttention, d_model: int) -> nn.MultiheadAttention:
    """PyTorch's layer with our weights."""
    theirs = nn.MultiheadAttention(d_model, ours.heads, batch_first=True)
    with torch.no_grad():
        for parameter in ours.parameters():  # biases too, which start at zero
            parameter.copy_(torch.randn_like(parameter) * 0.2)
        theirs.in_proj_weight.copy_(ours.project_in.weight)
        theirs.in_proj_bias.copy_(ours.project_in.bias)
        theirs.out_proj.weight.copy_(ours.project_out.weight)
        theirs.out_proj.bias.copy_(ours.project_out.bias)
    return theirs


def heads(queries: int = 6, keys: int = 6, d_k: int = 8, d_v: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Random query, key and value of two sentences and three heads."""
    return torch.randn(2, 3, queries, d_k), torch.randn(2, 3, keys, d_k), torch.randn(2, 3, keys, d_v)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_multi_head_attention_equals_pytorchs(cross: bool, padded: bool) -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(32, 4)
    theirs = the_same_in_pytorch(ours, 32)
    x = torch.randn(3, 7, 32, requires_grad=True)
    memory = torch.randn(3, 9, 32) if cross else x
    mask = padding_mask(torch.tensor([memory.size(1), 4, 1])) if padded else None

    out = ours(x, memory if cross else None, mask)
    expected, _ = theirs(x, memory, memory, key_padding_mask=None if mask is None else ~mask, need_weights=False)
    assert torch.allclose(out, expected, atol=TOLERANCE, rtol=0)

    weighted = torch.randn_like(out)
    gradient, expected_gradient = (torch.autograd.grad((y * weighted).sum(), x)[0] for y in (out, expected))
    assert torch.allclose(gradient, expected_gradient, atol=TOLERANCE, rtol=0)


def test_the_returned_weights_equal_pytorchs() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(32, 4)
    theirs = the_same_in_pytorch(ours, 32)
    x, mask = torch.randn(2, 6, 32), padding_mask(torch.tensor([6, 3]))
    out, found = ours(x, mask=mask, return_weights=True)
    _, expected = theirs(x, x, x, key_padding_mask=~mask, average_attn_weights=False)
    assert torch.allclose(found.weights, expected, atol=TOLERANCE, rtol=0)
    assert torch.allclose(out, ours(x, mask=mask), atol=TOLERANCE, rtol=0)


def test_attention_equals_pytorchs_with_a_causal_mask() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(32, 4)
    theirs = the_same_in_pytorch(ours, 32)
    x = torch.randn(2, 6, 32)
    expected, _ = theirs(x, x, x, attn_mask=~causal_mask(6), need_weights=False)
    assert torch.allclose(ours(x, causal=True), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 16), (16, 4)])
def test_the_fused_kernel_equals_the_plain_formula(masked: bool, biased: bool, d_k: int, d_v: int) -> None:
    torch.manual_seed(1)
    query, key, value = heads(queries=5, keys=7, d_k=d_k, d_v=d_v)
    mask = over_keys(padding_mask(torch.tensor([7, 3]))) if masked else None
    bias = torch.randn(1, 3, 5, 7) if biased else None
    explicit, _ = scaled_dot_product_attention(query, key, value, mask, bias)
    assert explicit.shape == (2, 3, 5, d_v)
    assert torch.allclose(fused_attention(query, key, value, mask, bias), explicit, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 16)])
def test_fused_causal_attention_equals_an_explicit_causal_mask(d_k: int, d_v: int) -> None:
    torch.manual_seed(1)
    query, key, value = heads(d_k=d_k, d_v=d_v)
    explicit, _ = scaled_dot_product_attention(query, key, value, causal_mask(6))
    assert torch.allclose(fused_attention(query, key, value, causal=True), explicit, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", get_args(AttentionKind))
def test_every_attention_kind_can_be_built(kind: AttentionKind) -> None:
    assert kind in ATTENTION_KINDS
    query, key, value = heads(d_k=8, d_v=5)
    attention = build_attention(AttentionSettings(kind, max_length=6))
    found = attention(query, key, value, causal=not attention.not_causal)
    assert found.heads.shape == (2, 3, 6, 5)
    assert found.weights is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("start", [0, 4])
def test_asking_for_weights_never_changes_the_heads(masked: bool, causal: bool, biased: bool, start: int) -> None:
    torch.manual_seed(2)
    query, key, value = heads(queries=6, keys=6 + start)
    mask = padding_mask(torch.tensor([6 + start, 3])) if masked else None
    options: dict[str, Any] = {"key_mask": mask, "causal": causal, "start": start, "bias": LinearBias(3) if biased else None}
    plain = FullAttention()(query, key, value, **options)
    traced = FullAttention()(query, key, value, return_weights=True, **options)
    assert torch.allclose(plain.heads, traced.heads, atol=TOLERANCE, rtol=0)
    weights, scores = traced.weights
    assert torch.allclose(weights @ value, traced.heads, atol=TOLERANCE, rtol=0)
    allowed = torch.ones(2, 1, 6, 6 + start, dtype=torch.bool)
    if mask is not None:
        allowed &= mask[:, None, None, :]
    if causal:
        allowed &= causal_mask(6, 6 + start)
    assert torch.allclose(scores.masked_fill(~allowed, -math.inf).softmax(-1), weights, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("biased", [False, True])
def test_a_query_with_every_key_masked_gets_zeros_and_finite_gradients(biased: bool) -> None:
    torch.manual_seed(3)
    parts = [part.requires_grad_() for part in heads()]
    query, key, value = parts
    mask = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    mask[0, :, 2] = False  # one query of one sentence
    mask[1] = False  # every query of the other
    bias = torch.randn(1, 3, 6, 6, requires_grad=True) if biased else None
    explicit, (weights, _) = scaled_dot_product_attention(query, key, value, mask, bias)
    fused = fused_attention(query, key, value, mask, bias)
    assert torch.equal(weights[0, :, 2], torch.zeros(3, 6))
    gradients = []
    for out in (explicit, fused):
        assert torch.equal(out[0, :, 2], torch.zeros(3, 8))
        assert torch.equal(out[1], torch.zeros(3, 6, 8))
        assert out[0, :, 3].abs().min() > 0
        inputs = parts if bias is None else [*parts, bias]
        gradients.append(torch.autograd.grad(out.square().sum(), inputs))
        assert all(bool(gradient.isfinite().all()) for gradient in gradients[-1])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=TOLERANCE, rtol=0)


def test_a_source_of_padding_alone_gives_finite_outputs_and_gradients() -> None:
    torch.manual_seed(3)
    model = make_model(12, 12, 16, layers=2, d_ff=16, heads=2)
    mask = padding_mask(torch.tensor([5, 0]), 5)
    out = model(torch.randint(0, 12, (2, 5)), torch.randint(0, 12, (2, 4)), mask)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_each_row_of_weights_sums_to_one_and_masked_keys_weigh_nothing() -> None:
    torch.manual_seed(4)
    query, key, value = heads(queries=4, keys=9)
    mask = over_keys(padding_mask(torch.tensor([9, 2])))
    assert mask is not None
    _, (weights, _) = scaled_dot_product_attention(query * 5, key * 5, value, mask, torch.randn(1, 3, 4, 9))
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 4), atol=1e-6)
    assert bool((weights >= 0).all())
    assert float(weights[1, :, :, 2:].abs().max()) == 0.0


def test_scores_are_divided_by_the_root_of_d_k() -> None:
    query, key = torch.full((1, 1, 1, 16), 1.0), torch.stack([torch.full((16,), 0.5), torch.zeros(16)])[None, None]
    _, (weights, scores) = scaled_dot_product_attention(query, key, torch.randn(1, 1, 2, 3))
    assert torch.allclose(scores.flatten(), torch.tensor([8.0 / 4.0, 0.0]))
    assert torch.allclose(weights.flatten(), torch.tensor([8.0 / 4.0, 0.0]).softmax(0))


@pytest.mark.parametrize("positions", POSITIONS)
def test_where_a_cpu_multiplies_in_bf16_attention_stays_in_float32_and_comes_close(positions: str) -> None:
    torch.manual_seed(0)
    model = make_model(20, 20, 32, layers=1, heads=4, d_ff=64, dropout=0.0, positions=positions)
    source, target = torch.randint(0, 20, (2, 3, 6))
    mask = padding_mask(torch.tensor([6, 4, 1]))
    results = []
    for rough in (False, True):
        seen: list[torch.dtype] = []
        model.zero_grad()
        with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.bfloat16, enabled=rough):
            usual = nn.functional.scaled_dot_product_attention

            def watched(query: Tensor, *rest: Any, usual: Any = usual, seen: list[torch.dtype] = seen, **more: Any) -> Tensor:
                seen.append(query.dtype)
                return usual(query, *rest, **more)

            patch.setattr(nn.functional, "scaled_dot_product_attention", watched)
            loss = model(source, target, mask).float().gather(-1, source[..., None]).mean()
        loss.backward()
        assert seen == [torch.float32] * 3
        results.append((loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])))
    (exact, gradient), (near, rough_gradient) = results
    assert exact != near
    torch.testing.assert_close(near, exact, rtol=0.01, atol=0)
    assert float((rough_gradient - gradient).norm() / gradient.norm()) < 0.1
