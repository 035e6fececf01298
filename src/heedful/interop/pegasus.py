"""Pre-norm encoder–decoders as Pegasus (sinusoidal positions) or Blenderbot (learned ones) of transformers; export only."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.interop import marian
from heedful.interop.foreign_config import their_activation
from heedful.interop.known_settings import Obstacle, obstacle
from heedful.interop.weight_map import MappedWeight, export_weights, linear
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.settings import Json

NEVER = -1e9  # the logit of a token that only sources have


def two_vocabularies(config: Seq2SeqConfig) -> bool:
    """Whether source and target have separate embeddings. Theirs have one, in which the source's ids follow the target's."""
    return config.tie != "all"


def obstacles(config: Seq2SeqConfig) -> list[Obstacle]:
    """The settings that neither can express."""
    found = marian.of_heads_and_reads(config)
    if config.positions not in ("sinusoidal", "learned", "none"):
        found.append(obstacle(config, "positions", "sinusoidal", "only 'sinusoidal', 'learned' or 'none'"))
    return found


def to_huggingface(config: Seq2SeqConfig, weights: Mapping[str, Tensor]) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → their config.json and tensors."""
    pegasus = config.positions == "sinusoidal"
    vocabulary = config.target_vocab + (config.source_vocab if two_vocabularies(config) else 0)
    values: dict[str, Json] = {
        "model_type": "pegasus" if pegasus else "blenderbot",
        "architectures": [("Pegasus" if pegasus else "Blenderbot") + "ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary,
        "d_model": config.d_model,
        "encoder_layers": config.layers,
        "decoder_layers": config.depth,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        "activation_function": their_activation(config.activation),
        "max_position_embeddings": config.max_positions,
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tie != "none",
    }
    if not pegasus:
        values["encoder_no_repeat_ngram_size"] = 0
    if pegasus:  # they put all sines first
        weights = marian.reorder_features(weights, torch.argsort(marian.theirs_in_our_order(config.d_model)))
    joined = dict(weights)
    if two_vocabularies(config):
        source, output = weights["source_embedding.weight"], weights["output_weight"]
        joined["shared"] = torch.cat([weights.get("target_embedding.weight", output), source])
        joined["output_weight"] = torch.cat([output, torch.zeros_like(source)])
        joined["output_bias"] = torch.cat([weights["output_bias"], torch.full((len(source),), NEVER)])
    else:
        joined["shared"] = weights["output_weight"]
    for side in ("source", "target"):
        joined.setdefault(f"{side}_embedding.positions.table", torch.zeros(config.max_positions, config.d_model))
    tensors = export_weights(weight_map(config), joined)
    if config.tie == "none":  # then theirs does not tie its two embeddings either
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_tokens.weight"] = joined["shared"].clone()
    return values, tensors


def weight_map(config: Seq2SeqConfig) -> list[MappedWeight]:
    """Every weight: those of Marian's layers, the final LayerNorms, and what `to_huggingface` joins."""
    embeddings = ("output_weight", "output_bias", "source_embedding.weight", "target_embedding.weight")
    layers = [mapped for mapped in marian.weight_map(config) if mapped.ours not in embeddings]
    found = [
        MappedWeight("shared", ("model.shared.weight",)),
        MappedWeight("output_bias", (marian.BIAS,), shape=(1, -1)),
        *layers,
        *linear("encoder.norm", "model.encoder.layer_norm"),
        *linear("decoder.norm", "model.decoder.layer_norm"),
    ]
    if config.tie == "none":
        found.append(MappedWeight("output_weight", ("lm_head.weight",)))
    if config.positions != "sinusoidal":
        for ours, theirs in (("source", "encoder"), ("target", "decoder")):
            found.append(MappedWeight(f"{ours}_embedding.positions.table", (f"model.{theirs}.embed_positions.weight",)))
    return found
