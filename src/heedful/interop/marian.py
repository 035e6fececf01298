"""Marian, the encoder–decoder of the OPUS-MT translation models."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop.foreign_config import ForeignConfig, their_activation
from heedful.interop.known_settings import Obstacle, obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.nn.positions import SinusoidalPositions
from heedful.settings import Json

ARCHITECTURE = "MarianMTModel"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
BIAS = "final_logits_bias"


def weight_map(config: Seq2SeqConfig) -> list[MappedWeight]:
    """Every weight of the encoder–decoder; a tied matrix is listed once, as the output weight."""
    source, target, output = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
    if config.tie == "all":
        found = [MappedWeight("output_weight", ("model.shared.weight",), copies=(source, target, output))]
    elif config.tie == "target":
        found = [MappedWeight("source_embedding.weight", (source,)), MappedWeight("output_weight", (target,), copies=(output,))]
    else:
        found = [
            MappedWeight("source_embedding.weight", (source,)),
            MappedWeight("target_embedding.weight", (target,)),
            MappedWeight("output_weight", (output,)),
        ]
    found.append(MappedWeight("output_bias", (BIAS,), shape=(1, config.target_vocab)))
    for side, layers in (("encoder", config.layers), ("decoder", config.depth)):
        attentions = {"self_attention": ("self_attn", "around_self")}
        if side == "decoder":
            attentions["cross_attention"] = ("encoder_attn", "around_cross")
        for number in range(layers):
            ours, theirs = f"{side}.layers.{number}", f"model.{side}.layers.{number}"
            for name, (attention, around) in attentions.items():
                parts = [f"{theirs}.{attention}.{letter}_proj" for letter in "qkv"]
                found += linear(f"{ours}.{name}.project_in", *parts)
                found += linear(f"{ours}.{name}.project_out", f"{theirs}.{attention}.out_proj")
                found += linear(f"{ours}.{around}.norm", f"{theirs}.{attention}_layer_norm")
            found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.fc1")
            found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.fc2")
            found += linear(f"{ours}.around_feed.norm", f"{theirs}.final_layer_norm")
    return found


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[Seq2SeqConfig, dict[str, Tensor]]:
    """A Marian model's configuration and tensors → ours. Its dropout inside the feed-forward layer is ignored."""
    if foreign.architecture(ARCHITECTURE) != ARCHITECTURE:
        raise HeedfulError(
            f"{foreign.origin} describes a {foreign.architecture(ARCHITECTURE)}; heedful reads only {ARCHITECTURE}"
        )
    foreign.require(
        is_decoder=False,
        add_cross_attention=False,
        normalize_before=False,
        normalize_embedding=False,
        add_final_layer_norm=False,
        static_position_embeddings=True,
    )
    same = {}
    for name in ("attention_heads", "ffn_dim"):
        same[name], other = foreign.integer(f"encoder_{name}"), foreign.integer(f"decoder_{name}")
        if same[name] != other:
            raise HeedfulError(
                f"{foreign.origin} has encoder_{name} = {same[name]} but decoder_{name} = {other}; "
                "heedful uses the same value for both"
            )
    shared, tied = foreign.flag("share_encoder_decoder_embeddings", True), foreign.flag("tie_word_embeddings", True)
    vocabulary = foreign.integer("vocab_size")
    config = Seq2SeqConfig(
        source_vocab=vocabulary,
        target_vocab=vocabulary if shared else foreign.integer("decoder_vocab_size", vocabulary),
        layers=foreign.integer("encoder_layers"),
        decoder_layers=foreign.integer("decoder_layers"),
        d_model=foreign.integer("d_model"),
        d_ff=same["ffn_dim"],
        heads=same["attention_heads"],
        dropout=foreign.number("dropout", 0.1),
        attention_dropout=foreign.number("attention_dropout", 0.0),
        activation=foreign.activation("activation_function", "gelu"),
        max_positions=foreign.integer("max_position_embeddings", 1024),
        tie=("all" if shared else "target") if tied else "none",
        scale_embedding=foreign.flag("scale_embedding", False),
    )
    tensors = without_positions(tensors, config.d_model, origin)
    if shared and not tied and "model.shared.weight" in tensors:
        # Such a file may store one matrix for both embeddings, or each embedding and an additional unused one.
        matrix = tensors.pop("model.shared.weight")
        tensors = {"model.encoder.embed_tokens.weight": matrix, "model.decoder.embed_tokens.weight": matrix, **tensors}
    tensors.setdefault(BIAS, torch.zeros(1, config.target_vocab))  # absent where it is zero
    weights = import_weights(weight_map(config), config, tensors, origin)
    return config, reorder_features(weights, theirs_in_our_order(config.d_model))


def obstacles(config: Seq2SeqConfig) -> list[Obstacle]:
    """The settings that Marian cannot express."""
    return only(config, norm="post", positions="sinusoidal") + of_heads_and_reads(config)


def of_heads_and_reads(config: Seq2SeqConfig) -> list[Obstacle]:
    """What no encoder–decoder of transformers can express: other heads, or a decoder that reads more than the last layer."""
    usual = config.d_model // config.heads
    decoder: dict[str, Json] = {} if config.decoder_attention_kind is None else {"decoder_attention_kind": "full"}
    found = only(config, reads="last", attention_kind="full", **decoder)
    if config.d_model % config.heads:
        found.append(Obstacle(f"d_model = {config.d_model} (only a multiple of heads = {config.heads})"))
    for name in ("d_k", "d_v"):
        if getattr(config, name) not in (None, usual):
            found.append(obstacle(config, name, usual, f"only d_model / heads = {usual}"))
    return found


def to_huggingface(config: Seq2SeqConfig, weights: Mapping[str, Tensor]) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a Marian config.json and its tensors."""
    values: dict[str, Json] = {
        "model_type": "marian",
        "architectures": [ARCHITECTURE],
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab,
        "decoder_vocab_size": config.target_vocab,
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
        "share_encoder_decoder_embeddings": config.tie == "all",
        "tie_word_embeddings": config.tie != "none",
        "static_position_embeddings": True,
    }
    ours = torch.argsort(theirs_in_our_order(config.d_model))
    return values, export_weights(weight_map(config), reorder_features(weights, ours))


def theirs_in_our_order(d_model: int) -> Tensor:
    """(D,): for each of our features the index of theirs. They put all sines first; we interleave sines and cosines."""
    sines = (d_model + 1) // 2
    return torch.tensor([feature // 2 + (sines if feature % 2 else 0) for feature in range(d_model)])


def reorder_features(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """The same model with the D features of its residual stream in another order.

    Embeddings and positions form the residual stream, linear layers read and write it, and LayerNorm treats all features
    alike. If all of them are permuted in the same way, every product sums the same terms and no output changes. So a model
    trained with another order of sines and cosines needs no other implementation of positions.
    """
    reordered = {}
    for name, weight in weights.items():
        if name.endswith(("project_in.bias", "output_bias")):
            reordered[name] = weight  # indexed by heads, hidden features or the vocabulary, not by D
        else:
            writes = weight.dim() == 1 or name.endswith("project_out.weight")
            reordered[name] = weight.index_select(0 if writes else 1, order)
    return reordered


def without_positions(tensors: Mapping[str, Tensor], d_model: int, origin: str) -> dict[str, Tensor]:
    """Remove the position tables that old files store, after checking that they are the usual sines and cosines."""
    for name in POSITIONS:
        if name in tensors:
            table = tensors[name].float()
            usual = SinusoidalPositions(d_model).compute(0, table.size(0))[:, torch.argsort(theirs_in_our_order(d_model))]
            if table.shape != usual.shape or not torch.allclose(table, usual, atol=1e-3):
                raise HeedfulError(
                    f"{name} in {origin} is not a table of sinusoidal positions, the only kind heedful reads for Marian"
                )
    return {name: tensor for name, tensor in tensors.items() if name not in POSITIONS}
