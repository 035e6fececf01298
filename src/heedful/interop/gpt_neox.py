"""GPTs with rotary positions as GPT-NeoX of transformers; export only."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.interop.foreign_config import their_activation
from heedful.interop.weight_map import MappedWeight, export_weights, linear
from heedful.models.gpt import GPTConfig
from heedful.settings import Json


def to_huggingface(config: GPTConfig, weights: Mapping[str, Tensor]) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a GPT-NeoX config.json and its tensors."""
    values: dict[str, Json] = {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": config.vocab,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.d_ff,
        "hidden_act": their_activation(config.activation),
        "hidden_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "max_position_embeddings": config.context,
        "layer_norm_eps": config.epsilon,
        "use_parallel_residual": False,
        "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        "tie_word_embeddings": config.tie,
    }
    reordered = {
        name: by_head(weight, config.heads) if ".project_in." in name and "self_attention" in name else weight
        for name, weight in weights.items()
    }
    return values, export_weights(weight_map(config), reordered)


def by_head(stacked: Tensor, heads: int) -> Tensor:
    """Rows of Q, K and V one after the other → those of each head together, as theirs are.

    They rotate the first half of a head with its second half, we rotate neighbours, so rows of Q and K change places.
    """
    parts = list(stacked.unflatten(0, (3, heads, -1)))  # (H, K, …) each
    parts[:2] = [torch.cat([part[:, 0::2], part[:, 1::2]], dim=1) for part in parts[:2]]
    return torch.stack(parts, dim=1).flatten(0, 2)


def weight_map(config: GPTConfig) -> list[MappedWeight]:
    """Every weight of the language model."""
    embedding, output = "gpt_neox.embed_in.weight", "embed_out.weight"
    if config.tie:
        found = [MappedWeight("output_weight", (embedding,), copies=(output,))]
    else:
        found = [MappedWeight("embedding.weight", (embedding,)), MappedWeight("output_weight", (output,))]
    for number in range(config.layers):
        ours, theirs = f"encoder.layers.{number}", f"gpt_neox.layers.{number}"
        found += linear(f"{ours}.self_attention.project_in", f"{theirs}.attention.query_key_value")
        found += linear(f"{ours}.self_attention.project_out", f"{theirs}.attention.dense")
        found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.mlp.dense_h_to_4h")
        found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.mlp.dense_4h_to_h")
        found += linear(f"{ours}.around_self.norm", f"{theirs}.input_layernorm")
        found += linear(f"{ours}.around_feed.norm", f"{theirs}.post_attention_layernorm")
    return [*found, *linear("encoder.norm", "gpt_neox.final_layer_norm")]
