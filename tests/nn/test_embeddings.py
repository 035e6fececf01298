"""Token embeddings: what is added to what, and in which order."""

from __future__ import annotations

import math

import torch
from torch import nn

from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.positions import LearnedPositions, SinusoidalPositions

D = 8
TOKENS = torch.tensor([[1, 4, 2], [3, 3, 0]])


def matrix(rows: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, D))


def test_an_embedding_is_scaled_by_the_root_of_its_width_unless_told_otherwise() -> None:
    weight = matrix(5)
    assert torch.allclose(TokenEmbedding(weight, None, 0.0)(TOKENS), weight[TOKENS] * math.sqrt(D))
    assert torch.equal(TokenEmbedding(weight, None, 0.0, scale=1.0)(TOKENS), weight[TOKENS])
    assert torch.equal(TokenEmbedding(weight, None, 0.0, scale=3.0)(TOKENS), weight[TOKENS] * 3.0)


def test_positions_are_added_after_the_scale_and_count_from_the_start() -> None:
    weight, positions = matrix(5), SinusoidalPositions(D)
    found = TokenEmbedding(weight, positions, 0.0)(TOKENS, start=4)
    assert torch.allclose(found, weight[TOKENS] * math.sqrt(D) + positions.compute(4, 7))


def test_berts_embedding_is_the_normalised_sum_of_token_position_and_segment() -> None:
    weight, segments, norm = matrix(5), matrix(2), nn.LayerNorm(D, 1e-12)
    positions = LearnedPositions(D, 6)
    embed = TokenEmbedding(weight, positions, 0.0, scale=1.0, segments=segments, norm=norm)
    kinds = torch.tensor([[0, 1, 1], [0, 0, 1]])
    total = weight[TOKENS] + positions.table[:3] + segments[kinds]
    expected = (total - total.mean(-1, keepdim=True)) / total.var(-1, correction=0, keepdim=True).sqrt()
    assert torch.allclose(embed(TOKENS, segments=kinds), expected, atol=1e-5)
    assert torch.equal(embed(TOKENS), embed(TOKENS, segments=torch.zeros_like(TOKENS)))


def test_dropout_comes_after_the_norm() -> None:
    torch.manual_seed(0)
    embed = TokenEmbedding(matrix(5), None, 0.5, norm=nn.LayerNorm(D))
    dropped = embed(TOKENS)
    whole = embed.eval()(TOKENS)
    kept = dropped != 0
    assert bool(kept.any())
    assert not bool(kept.all())
    assert torch.allclose(dropped[kept], 2 * whole[kept])
