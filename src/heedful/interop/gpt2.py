"""GPT-2, the decoder-only language model."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop.foreign_config import ForeignConfig, their_activation
from heedful.interop.known_settings import Obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.gpt import GPTConfig
from heedful.nn.positions import SinusoidalPositions
from heedful.settings import Json

ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")
PREFIX = "transformer."
MASKS = re.compile(r"(.*\.)?h\.\d+\.attn\.(bias|masked_bias)")  # old files store the causal mask of every layer


def weight_map(config: GPTConfig, prefix: str = PREFIX) -> list[MappedWeight]:
    """Every weight of the language model."""
    embedding, output = f"{prefix}wte.weight", "lm_head.weight"
    if config.tie:
        found = [MappedWeight("output_weight", (embedding,), copies=(output,))]
    else:
        found = [MappedWeight("embedding.weight", (embedding,)), MappedWeight("output_weight", (output,))]
    found.append(MappedWeight("embedding.positions.table", (f"{prefix}wpe.weight",)))
    for number in range(config.layers):
        ours, theirs = f"encoder.layers.{number}", f"{prefix}h.{number}"
        # Their Conv1D computes x W + b, our Linear x Wᵀ + b.
        found += linear(f"{ours}.self_attention.project_in", f"{theirs}.attn.c_attn", transposed=True)
        found += linear(f"{ours}.self_attention.project_out", f"{theirs}.attn.c_proj", transposed=True)
        found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.mlp.c_fc", transposed=True)
        found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.mlp.c_proj", transposed=True)
        found += linear(f"{ours}.around_self.norm", f"{theirs}.ln_1")
        found += linear(f"{ours}.around_feed.norm", f"{theirs}.ln_2")
    return [*found, *linear("encoder.norm", f"{prefix}ln_f")]


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[GPTConfig, dict[str, Tensor]]:
    """A GPT-2's configuration and tensors → ours. We use its residual dropout for the embeddings, too."""
    architecture = foreign.architecture(ARCHITECTURES[0])
    if architecture not in ARCHITECTURES:
        raise HeedfulError(f"{foreign.origin} describes a {architecture}; heedful reads only {' and '.join(ARCHITECTURES)}")
    foreign.require(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    width = foreign.integer("n_embd")
    config = GPTConfig(
        vocab=foreign.integer("vocab_size"),
        layers=foreign.integer("n_layer"),
        d_model=width,
        d_ff=foreign.integer("n_inner", 4 * width),
        heads=foreign.integer("n_head"),
        context=foreign.integer("n_positions"),
        dropout=foreign.number("resid_pdrop", 0.1),
        attention_dropout=foreign.number("attn_pdrop", 0.1),
        activation=foreign.activation("activation_function", "gelu_new"),
        epsilon=foreign.number("layer_norm_epsilon", 1e-5),
        tie=foreign.flag("tie_word_embeddings", True),
    )
    tensors = {name: tensor for name, tensor in tensors.items() if not MASKS.fullmatch(name)}
    # The bare model's tensors have no prefix; the original GPT-2 files are of this kind.
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    return config, import_weights(weight_map(config, prefix), config, tensors, origin)


def obstacles(config: GPTConfig) -> list[Obstacle]:
    """The settings that neither GPT-2 nor GPT-NeoX can express."""
    tables = ("learned", "sinusoidal", "none")  # positions that a table can hold; rotary ones are exported as GPT-NeoX
    others: dict[str, Json] = {} if config.positions in (*tables, "rotary") else {"positions": "learned"}
    return only(config, norm="pre", attention_kind="full", **others)


def to_huggingface(config: GPTConfig, weights: Mapping[str, Tensor]) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a GPT-2 config.json and its tensors."""
    values: dict[str, Json] = {
        "model_type": "gpt2",
        "architectures": [ARCHITECTURES[0]],
        "vocab_size": config.vocab,
        "n_layer": config.layers,
        "n_embd": config.d_model,
        "n_inner": config.d_ff,
        "n_head": config.heads,
        "n_positions": config.context,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "activation_function": their_activation(config.activation),
        "layer_norm_epsilon": config.epsilon,
        "tie_word_embeddings": config.tie,
    }
    return values, export_weights(weight_map(config), with_position_table(config, weights))


def with_position_table(config: GPTConfig, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights with a table of positions, which holds sinusoids, or no positions, as well as learned ones."""
    if config.positions == "learned":
        return weights
    waves = SinusoidalPositions(config.d_model).compute(0, config.context)
    table = waves if config.positions == "sinusoidal" else torch.zeros_like(waves)
    return {**weights, "embedding.positions.table": table}
