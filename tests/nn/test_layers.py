"""Encoder and decoder layers against PyTorch's own, what stacks return, and the mix of layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from heedful.nn.cache import KeyValueCache
from heedful.nn.decoder import Decoder, DecoderLayer, LayerMix
from heedful.nn.encoder import Encoder, EncoderLayer, build_encoder
from heedful.nn.feedforward import FeedForward
from heedful.nn.masks import causal_mask, padding_mask
from heedful.nn.multihead import MultiHeadAttention
from heedful.nn.residual import Residual

TOLERANCE = 1e-5
D, F, H = 32, 64, 4


def residual(norm: Any) -> Residual:
    return Residual(D, 0.0, norm)


def encoder_layer(norm: Any, activation: Any = "relu") -> EncoderLayer:
    return EncoderLayer(MultiHeadAttention(D, H), FeedForward(D, F, activation), lambda: residual(norm))


def decoder_layer(norm: Any, activation: Any) -> DecoderLayer:
    attentions = MultiHeadAttention(D, H), MultiHeadAttention(D, H)
    return DecoderLayer(*attentions, FeedForward(D, F, activation), lambda: residual(norm))


def shake(module: nn.Module) -> None:
    """Random values everywhere, so that biases and gains take part."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project_in.weight)
        theirs.in_proj_bias.copy_(ours.project_in.bias)
    theirs.out_proj.load_state_dict(ours.project_out.state_dict())


def copy_encoder_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.project_in.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.project_out.state_dict())
    theirs.norm1.load_state_dict(ours.around_self.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_feed.norm.state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_layer_equals_pytorchs(norm: Any, activation: Any, padded: bool) -> None:
    torch.manual_seed(0)
    ours = encoder_layer(norm, activation)
    shake(ours)
    theirs = nn.TransformerEncoderLayer(D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre")
    copy_encoder_layer(ours, theirs)
    x = torch.randn(3, 7, D)
    mask = padding_mask(torch.tensor([7, 4, 2])) if padded else None
    expected = theirs(x, src_key_padding_mask=None if mask is None else ~mask)
    assert torch.allclose(ours(x, mask), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_decoder_layer_equals_pytorchs(norm: Any, activation: Any, padded: bool) -> None:
    torch.manual_seed(0)
    ours = decoder_layer(norm, activation)
    shake(ours)
    theirs = nn.TransformerDecoderLayer(D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre")
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.project_in.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.project_out.state_dict())
    theirs.norm1.load_state_dict(ours.around_self.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_cross.norm.state_dict())
    theirs.norm3.load_state_dict(ours.around_feed.norm.state_dict())

    x, memory = torch.randn(3, 6, D), torch.randn(3, 8, D)
    mask = padding_mask(torch.tensor([6, 4, 1])) if padded else None
    memory_mask = padding_mask(torch.tensor([3, 8, 5])) if padded else None
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(6),
        tgt_key_padding_mask=None if mask is None else ~mask,
        memory_key_padding_mask=None if memory_mask is None else ~memory_mask,
    )
    assert torch.allclose(ours(x, memory, mask, memory_mask), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_last_of_all_layers_is_what_the_encoder_returns(norm: Any) -> None:
    torch.manual_seed(0)
    final = nn.LayerNorm(D) if norm == "pre" else None
    encoder = Encoder([encoder_layer(norm) for _ in range(3)], final)
    x, mask = torch.randn(2, 5, D), padding_mask(torch.tensor([5, 3]))
    outputs = encoder.all_layers(x, mask)
    assert len(outputs) == 3
    assert torch.equal(outputs[-1], encoder(x, mask))
    # Every memory that a decoder may attend to is normalised, with pre-norm too.
    for output in outputs:
        assert torch.allclose(output.mean(-1), torch.zeros(2, 5), atol=1e-5)
        assert torch.allclose(output.var(-1, correction=0), torch.ones(2, 5), atol=1e-2)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("padded", [False, True])
def test_a_causal_encoder_layer_equals_pytorchs(norm: Any, padded: bool) -> None:
    torch.manual_seed(0)
    ours = encoder_layer(norm)
    shake(ours)
    theirs = nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm == "pre")
    copy_encoder_layer(ours, theirs)
    x = torch.randn(3, 7, D)
    mask = padding_mask(torch.tensor([7, 4, 2])) if padded else None
    expected = theirs(x, src_mask=~causal_mask(7), src_key_padding_mask=None if mask is None else ~mask)
    assert torch.allclose(ours(x, mask, causal=True), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("parts", [[7], [1] * 7, [3, 1, 3], [2, 5]])
def test_a_causal_encoder_with_caches_continues_where_it_stopped(parts: list[int]) -> None:
    torch.manual_seed(0)
    encoder = Encoder([encoder_layer("pre") for _ in range(2)], nn.LayerNorm(D))
    x = torch.randn(3, 7, D)
    caches = [KeyValueCache() for _ in encoder.layers]
    pieces = [encoder(part, causal=True, caches=caches) for part in x.split(parts, dim=1)]
    assert torch.allclose(torch.cat(pieces, dim=1), encoder(x, causal=True), atol=TOLERANCE, rtol=0)
    assert [cache.length for cache in caches] == [7, 7]


@pytest.mark.parametrize(("norm", "norms"), [("post", 4), ("pre", 5)])
def test_every_norm_of_an_encoder_has_the_epsilon_asked_for(norm: Any, norms: int) -> None:
    encoder = build_encoder(2, D, F, H, dropout=0.1, attention_dropout=0.2, activation="gelu", norm=norm, epsilon=1e-12)
    epsilons = [module.eps for module in encoder.modules() if isinstance(module, nn.LayerNorm)]
    assert epsilons == [1e-12] * norms
    assert [module.dropout for module in encoder.modules() if isinstance(module, MultiHeadAttention)] == [0.2] * 2


@pytest.mark.parametrize(
    ("activation", "reference"),
    [("relu", nn.ReLU()), ("gelu", nn.GELU()), ("gelu-tanh", nn.GELU(approximate="tanh")), ("silu", nn.SiLU())],
)
def test_a_feed_forward_network_is_two_linear_maps_around_its_activation(activation: Any, reference: nn.Module) -> None:
    torch.manual_seed(0)
    feed = FeedForward(D, F, activation)
    shake(feed)
    x = torch.randn(3, 7, D)
    assert torch.equal(feed(x), feed.project_out(reference(feed.project_in(x))))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_returns_what_every_layer_computed(norm: Any, causal: bool) -> None:
    torch.manual_seed(0)
    encoder = Encoder([encoder_layer(norm) for _ in range(3)], nn.LayerNorm(D) if norm == "pre" else None)
    x, mask = torch.randn(2, 5, D), padding_mask(torch.tensor([5, 3]))
    states, layers = encoder(x, mask, causal, return_layers=True)
    assert torch.allclose(states, encoder(x, mask, causal), atol=TOLERANCE, rtol=0)
    assert torch.equal(layers.hidden[0], x)
    assert torch.equal(encoder.norm(layers.hidden[-1]), states)
    assert [found.weights.shape for found in layers.self_attention] == [(2, H, 5, 5)] * 3
    for before, after, layer in zip(layers.hidden, layers.hidden[1:], encoder.layers, strict=False):
        assert torch.allclose(layer(before, mask, causal), after, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_returns_what_every_layer_computed(norm: Any) -> None:
    torch.manual_seed(0)
    decoder = Decoder([decoder_layer(norm, "relu") for _ in range(2)], nn.LayerNorm(D) if norm == "pre" else None)
    x, memories = torch.randn(2, 5, D), [torch.randn(2, 7, D) for _ in range(2)]
    memory_mask = padding_mask(torch.tensor([7, 3]))
    states, layers = decoder(x, memories, None, memory_mask, return_layers=True)
    assert torch.allclose(states, decoder(x, memories, None, memory_mask), atol=TOLERANCE, rtol=0)
    assert torch.equal(decoder.norm(layers.hidden[-1]), states)
    assert [found.weights.shape for found in layers.self_attention] == [(2, H, 5, 5)] * 2
    assert [found.weights.shape for found in layers.cross_attention] == [(2, H, 5, 7)] * 2
    assert all(not bool(found.weights.triu(1).any()) for found in layers.self_attention)
    assert all(not bool(found.weights[1, :, :, 3:].any()) for found in layers.cross_attention)


def test_a_mix_starts_as_the_mean_of_all_layers() -> None:
    layers = [torch.randn(2, 3, 4) for _ in range(5)]
    assert torch.allclose(LayerMix(5)(layers), torch.stack(layers).mean(0), atol=1e-6)


def test_a_mix_is_a_convex_combination_of_the_layers() -> None:
    torch.manual_seed(6)
    mix = LayerMix(4)
    with torch.no_grad():
        mix.scores.copy_(torch.randn(4) * 3)
    same = torch.randn(2, 3, 4)
    assert torch.allclose(mix([same] * 4), same, atol=1e-6)  # weights sum to one
    units = [torch.eye(4)[i].view(1, 1, 4) for i in range(4)]
    weights = mix(units).flatten()
    assert torch.allclose(weights, mix.scores.softmax(0))
    assert bool((weights > 0).all())
    layers = [torch.randn(2, 3, 4) for _ in range(4)]
    mixed, stacked = mix(layers), torch.stack(layers)
    assert bool((mixed <= stacked.amax(0) + 1e-6).all())
    assert bool((mixed >= stacked.amin(0) - 1e-6).all())
