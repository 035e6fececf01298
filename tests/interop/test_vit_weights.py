"""Vision Transformers against transformers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from interop_models import shake
from safetensors.torch import load_file, save_file

from heedful.errors import HeedfulError
from heedful.interop import vit
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.models.vit import ViT, ViTConfig
from heedful.models.weights import load_weights, named_weights
from heedful.pipelines import load_pipeline

VARIANTS: list[dict[str, Any]] = [
    {},
    {"num_channels": 1, "patch_size": 3, "image_size": 9, "hidden_act": "relu", "num_labels": 1},
    {"qkv_bias": False, "hidden_act": "gelu_new", "num_attention_heads": 1},
    {"hidden_act": "silu", "layer_norm_eps": 1e-3, "num_hidden_layers": 3},
]


def build(seed: int = 0, **settings: Any) -> Any:
    """A small random image classifier."""
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    images = {"image_size": 16, "patch_size": 4, "num_labels": 5}
    torch.manual_seed(seed)
    return shake(transformers.ViTForImageClassification(transformers.ViTConfig(**{**sizes, **images, **settings})), seed)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_vit_gives_the_outputs_of_transformers_and_exports_unchanged(
    variant: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    model = build(seed, **variant)
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    config, weights = vit.to_heedful(ForeignConfig(values, "config.json"), load_file(tmp_path / "model.safetensors"), "file")
    ours = ViT(config).eval()
    load_weights(ours, weights, "import")
    images = torch.randn(3, config.channels, config.image_size, config.image_size)
    theirs = model(images).logits
    assert torch.allclose(theirs, ours(images), atol=1e-4)

    back, tensors = vit.to_huggingface(config, named_weights(ours))
    (tmp_path / "back").mkdir()
    labels = {"id2label": values["id2label"], "label2id": values["label2id"]}
    (tmp_path / "back" / "config.json").write_text(json.dumps({**back, **labels}))
    save_file(tensors, tmp_path / "back" / "model.safetensors", metadata={"format": "pt"})
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "back").eval()
    assert torch.allclose(again(images).logits, theirs, atol=1e-5)
    new = again.state_dict()
    assert all(torch.equal(new[name], tensor) for name, tensor in model.state_dict().items())


@torch.no_grad()
def test_another_image_size_is_interpolated_as_in_transformers(tmp_path: Path) -> None:
    model = build()
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    config, weights = vit.to_heedful(ForeignConfig(values, "config.json"), load_file(tmp_path / "model.safetensors"), "file")
    ours = ViT(config).eval()
    load_weights(ours, weights, "import")
    images = torch.randn(2, 3, 24, 32)
    assert torch.allclose(model(images, interpolate_pos_encoding=True).logits, ours(images), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architectures": ["ViTModel"]}, "describes a ViTModel; heedful reads only ViTForImageClassification"),
        ({"image_size": [16, 32]}, "image_size = [16, 32], which is not a whole number"),
        ({"head_dim": 8}, "head_dim = 8 (only 4)"),
        ({"id2label": {"0": "cat", "2": "dog"}}, "an id2label that does not name the classes 0, 1, 2, …"),
        ({"id2label": {"0": "cat"}}, "classifier.weight is [5, 12] and should be [1, 12]; classifier.bias is [5]"),
    ],
)
def test_settings_without_a_counterpart_are_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    build().save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    with pytest.raises(HeedfulError) as error:
        vit.to_heedful(ForeignConfig({**values, **change}, "x/config.json"), load_file(tmp_path / "model.safetensors"), "file")
    assert says in str(error.value)


def test_a_size_may_be_given_as_two_equal_sides(tmp_path: Path) -> None:
    build().save_pretrained(tmp_path)
    values = {**json.loads((tmp_path / "config.json").read_text()), "image_size": [16, 16], "patch_size": [4, 4]}
    config, _ = vit.to_heedful(ForeignConfig(values, "config.json"), load_file(tmp_path / "model.safetensors"), "file")
    assert (config.image_size, config.patch) == (16, 4)


def test_our_pooling_of_patches_is_not_exported() -> None:
    (found,) = vit.obstacles(ViTConfig(3, image_size=8, patch=4, d_model=8, heads=2, pooling="mean"))
    assert found == ("pooling = 'mean' (only 'cls')", "model.pooling=cls")


def test_a_directory_classifies_images_like_transformers_and_exports_unchanged(tmp_path: Path) -> None:
    pillow = importlib.import_module("PIL.Image")
    labels = {0: "cat", 1: "dog", 2: "fox", 3: "crow", 4: "none"}
    model = build(id2label=labels, label2id={name: number for number, name in labels.items()})
    model.save_pretrained(tmp_path / "theirs")
    halves = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_normalize": True, "size": {"height": 16, "width": 16}}
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(json.dumps(halves))
    said = import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert "an image that is not 16×16 is centre-cropped to a square before it is scaled" in said
    classifier = load_pipeline(tmp_path / "ours")
    assert classifier.labels == [*labels.values()]

    image = pillow.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8))
    image.save(tmp_path / "image.png")
    export_huggingface(tmp_path / "ours", tmp_path / "back")
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "back").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "back", backend="pil")
    with torch.no_grad():
        probabilities = again(processor(image, return_tensors="pt").pixel_values).logits.softmax(-1)[0]
    found = dict(classifier.classify([tmp_path / "image.png"], top=5)[0])
    assert again.config.id2label == labels
    assert all(abs(found[name] - float(probabilities[number])) < 1e-4 for number, name in labels.items())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"image_mean": [0.485, 0.456, 0.406]}, "image_mean = [0.485, 0.456, 0.406] (only [0.5, 0.5, 0.5])"),
        ({"do_normalize": False}, "do_normalize = False (only True)"),
        ({"rescale_factor": 1.0}, "rescale_factor = 1.0"),
    ],
)
def test_other_pixel_normalisations_are_refused(given: dict[str, Any], says: str, tmp_path: Path) -> None:
    build().save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "preprocessor_config.json").write_text(json.dumps(given))
    with pytest.raises(HeedfulError) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "ours")
    assert says in str(error.value)
