"""The Vision Transformer: patches, images of other sizes, poolings, settings, and that it learns."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import UsageError
from heedful.models.vit import ViT, ViTConfig, cut_patches
from heedful.nn.pooling import Pooling

POOLINGS = get_args(Pooling)

SIZES: dict[str, Any] = {"image_size": 8, "channels": 3, "patch": 2, "layers": 2, "d_model": 16, "d_ff": 32, "heads": 4}


@cache
def small(pooling: Any) -> ViT:
    """A small random model in eval mode, with weights large enough that every part matters."""
    torch.manual_seed(0)
    model = ViT(ViTConfig(5, **SIZES, pooling=pooling)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
@torch.no_grad()
def test_embedding_patches_is_a_convolution_as_wide_as_its_stride(channels: int, patch: int, rows: int, columns: int) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, channels, rows * patch, columns * patch)
    weight = torch.randn(6, channels, patch, patch)
    expected = F.conv2d(images, weight, stride=patch).flatten(2).transpose(1, 2)  # (B, N, D)
    found = cut_patches(images, patch) @ weight.flatten(1).T
    assert torch.allclose(found, expected, atol=1e-4)


def test_a_patch_is_its_own_part_of_the_image() -> None:
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert cut_patches(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_images_of_any_whole_number_of_patches_get_one_score_per_class(pooling: Any) -> None:
    model = small(pooling)
    for height, width in ((8, 8), (2, 2), (4, 16), (10, 6)):
        images = torch.rand(3, 3, height, width)
        assert model.states(images).shape == (3, 1 + height * width // 4, 16)
        assert model(images).shape == (3, 5)


@pytest.mark.parametrize("pooling", POOLINGS)
@torch.no_grad()
def test_every_patch_its_place_and_no_neighbour_in_the_batch_matter(pooling: Any) -> None:
    torch.manual_seed(1)
    model, images = small(pooling), torch.rand(4, 3, 8, 8)
    out = model(images)
    assert torch.allclose(model(images[[2]]), out[[2]], atol=1e-5)
    assert not torch.allclose(model(images.flip(3)), out, atol=1e-4)
    for row in range(0, 8, 2):
        for column in range(0, 8, 2):
            changed = images.clone()
            changed[:, :, row : row + 2, column : column + 2] += 0.5
            assert bool(((model(changed) - out).abs().amax(-1) > 1e-5).all())


def test_positions_for_the_learned_size_are_the_learned_ones() -> None:
    embedding = small("cls").embedding
    assert torch.equal(embedding.positions_for(4, 4), embedding.positions)


@torch.no_grad()
def test_positions_for_another_size_lie_between_the_learned_ones() -> None:
    embedding = ViT(ViTConfig(5, **SIZES)).embedding
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    embedding.positions[1:, 0], embedding.positions[1:, 1] = rows.flatten(), columns.flatten()
    other = embedding.positions_for(8, 12)
    assert torch.equal(other[0], embedding.positions[0])  # [CLS] is not on the grid
    grid = other[1:].view(8, 12, -1)
    # A patch gets the position of its centre on the learned grid; bicubic interpolation is not exactly linear.
    down, across = (torch.arange(8) + 0.5) / 2 - 0.5, (torch.arange(12) + 0.5) / 3 - 0.5
    assert torch.allclose(grid[:, :, 0], down[:, None].expand(8, 12), atol=0.26)
    assert torch.allclose(grid[:, :, 1], across.expand(8, 12), atol=0.26)
    assert bool((grid[1:-1, :, 0].diff(dim=0) > 0.1).all())
    assert bool((grid[:, 1:-1, 1].diff(dim=1) > 0.1).all())


@torch.no_grad()
def test_pooled_vectors_are_what_their_names_say() -> None:
    images = torch.rand(2, 3, 8, 8)
    states = small("cls").states(images)
    assert torch.equal(small("cls").pooled(states), states[:, 0])
    assert torch.allclose(small("mean").pooled(states), states[:, 1:].mean(1), atol=1e-6)
    assert small("attention").pooled(states).shape == (2, 5, 16)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, 9, 8), "an image of 9×8 cannot be cut into patches of 2×2; resize it so that both sides are multiples of 2"),
        ((1, 3, 8, 7), "an image of 8×7 cannot be cut"),
        ((1, 3, 0, 8), "an image of 0×8 cannot be cut"),
        ((1, 1, 8, 8), "the images have 1 channels but the model reads 3"),
    ],
)
def test_an_image_that_does_not_fit_is_refused_in_words(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        small("cls")(torch.zeros(shape))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": 0}, "classes must be at least 1, not 0"),
        ({"patch": 0}, "patch must be at least 1, not 0"),
        ({"patch": 3}, "image_size 8 is not a multiple of patch 3"),
        ({"d_model": 30}, "d_model 30 is not divisible by heads 4"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, not -0.1"),
        ({"pooling": "max"}, "pooling must be one of cls, mean, attention, not 'max'"),
        ({"activation": "swish"}, "activation must be one of relu, gelu, gelu-tanh, silu, not 'swish'"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ViTConfig(**{"classes": 5, **SIZES, **wrong})
    assert message in str(caught.value)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_small_model_learns_which_way_the_stripes_go(pooling: Any) -> None:
    torch.manual_seed(0)
    stripes = torch.tensor([0.0, 1.0]).repeat(4).expand(32, 1, 8, 8).clone()
    labels = torch.arange(32) % 2
    stripes[labels == 1] = stripes[labels == 1].transpose(2, 3)
    images = stripes + 0.5 * torch.randn(32, 1, 8, 8)
    model = ViT(ViTConfig(2, **{**SIZES, "channels": 1}, pooling=pooling))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    assert (model.eval()(images).argmax(-1) == labels).float().mean().item() > 0.95
