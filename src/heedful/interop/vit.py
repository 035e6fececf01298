"""ViT, the Vision Transformer, as an image classifier."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop.foreign_config import ForeignConfig, their_activation
from heedful.interop.known_settings import Obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.vit import ViTConfig
from heedful.settings import Json

ARCHITECTURE = "ViTForImageClassification"


def weight_map(config: ViTConfig, attention_bias: bool = True) -> list[MappedWeight]:
    """Every weight of the classifier; without `attention_bias`, the biases of queries, keys and values are left out."""
    width, patch = config.d_model, "vit.embeddings.patch_embeddings.projection"
    found = [
        MappedWeight("embedding.cls", ("vit.embeddings.cls_token",), shape=(1, 1, width)),
        MappedWeight("embedding.positions", ("vit.embeddings.position_embeddings",), shape=(1, 1 + config.grid**2, width)),
        # A convolution whose stride is its kernel size is a linear layer applied to every flattened patch, channels first.
        MappedWeight(
            "embedding.project.weight", (f"{patch}.weight",), shape=(width, config.channels, config.patch, config.patch)
        ),
        MappedWeight("embedding.project.bias", (f"{patch}.bias",)),
    ]
    for number in range(config.layers):
        ours, theirs = f"encoder.layers.{number}", f"vit.encoder.layer.{number}"
        parts = [f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value")]
        found += linear(f"{ours}.self_attention.project_in", *parts)[: 2 if attention_bias else 1]
        found += linear(f"{ours}.self_attention.project_out", f"{theirs}.attention.output.dense")
        found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.intermediate.dense")
        found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.output.dense")
        found += linear(f"{ours}.around_self.norm", f"{theirs}.layernorm_before")
        found += linear(f"{ours}.around_feed.norm", f"{theirs}.layernorm_after")
    return [*found, *linear("encoder.norm", "vit.layernorm"), *linear("classifier", "classifier")]


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[ViTConfig, dict[str, Tensor]]:
    """A ViT's configuration and tensors → ours."""
    if foreign.architecture(ARCHITECTURE) != ARCHITECTURE:
        raise HeedfulError(
            f"{foreign.origin} describes a {foreign.architecture(ARCHITECTURE)}; heedful reads only {ARCHITECTURE}"
        )
    width, heads = foreign.integer("hidden_size"), foreign.integer("num_attention_heads")
    foreign.require(head_dim=width // heads)
    config = ViTConfig(
        classes=len(foreign.labels()),
        image_size=square(foreign, "image_size", 224),
        channels=foreign.integer("num_channels", 3),
        patch=square(foreign, "patch_size", 16),
        layers=foreign.integer("num_hidden_layers"),
        d_model=width,
        d_ff=foreign.integer("intermediate_size"),
        heads=heads,
        dropout=foreign.number("hidden_dropout_prob", 0.0),
        attention_dropout=foreign.number("attention_probs_dropout_prob", 0.0),
        activation=foreign.activation("hidden_act", "gelu"),
        epsilon=foreign.number("layer_norm_eps", 1e-12),
    )
    biased = foreign.flag("qkv_bias", True)
    weights = import_weights(weight_map(config, biased), config, tensors, origin)
    for number in range(0 if biased else config.layers):
        weights[f"encoder.layers.{number}.self_attention.project_in.bias"] = torch.zeros(3 * width)
    return config, weights


def obstacles(config: ViTConfig) -> list[Obstacle]:
    """What a ViT of transformers cannot express."""
    return only(config, pooling="cls", attention_kind="full")


def to_huggingface(config: ViTConfig, weights: Mapping[str, Tensor]) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a ViT config.json, without the names of the classes, and its tensors."""
    values: dict[str, Json] = {
        "model_type": "vit",
        "architectures": [ARCHITECTURE],
        "image_size": config.image_size,
        "num_channels": config.channels,
        "patch_size": config.patch,
        "num_hidden_layers": config.layers,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_attention_heads": config.heads,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "hidden_act": their_activation(config.activation),
        "layer_norm_eps": config.epsilon,
        "qkv_bias": True,
    }
    return values, export_weights(weight_map(config), weights)


def square(foreign: ForeignConfig, name: str, default: int) -> int:
    """The side of a square, which may be given as one number or as two equal ones."""
    value = foreign.values.get(name)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        return ForeignConfig({name: value[0]}, foreign.origin).integer(name)
    return foreign.integer(name, default)


def refuse_other_pixels(given: ForeignConfig, config: ViTConfig) -> None:
    """Raise an error if preprocessor_config.json does not normalise pixels to [−1, 1], as we do."""
    halves = [0.5] * config.channels
    given.require(do_normalize=True, do_rescale=True, image_mean=halves, image_std=halves)
    factor = given.number("rescale_factor", 1 / 255)
    if abs(factor * 255 - 1) > 1e-6:
        raise HeedfulError(f"{given.origin} has rescale_factor = {factor}, but heedful's pixels range from 0 to 255")


def image_processor(config: ViTConfig) -> dict[str, Json]:
    """The preprocessor_config.json that describes our preprocessing."""
    side = config.image_size
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": 3,  # bicubic
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * config.channels,
        "image_std": [0.5] * config.channels,
    }
