"""Our models as CTranslate2's specifications: encoder–decoders, GPTs, and BERTs as bare encoders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.interop.known_settings import Obstacle, obstacle, only, unknown_settings
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.nn.positions import SinusoidalPositions
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

Array = NDArray[np.float32]
Weights = Mapping[str, Tensor]

# Our activations → the names of theirs.
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}


def inexpressible(config: ModelConfig) -> list[Obstacle]:
    """Every setting that CTranslate2 cannot express, and the value it can; empty if it can express all of them."""
    wrong = unknown_settings(config)
    if isinstance(config, Seq2SeqConfig):
        wrong += only(config, reads="last")
        if config.positions == "linear-bias":
            wrong.append(obstacle(config, "positions", "rotary", "its encoders have no bias on scores"))
        return wrong
    if isinstance(config, GPTConfig):
        if config.positions == "linear-bias" and config.heads & (config.heads - 1):
            wrong.append(obstacle(config, "positions", "rotary", "only with a power of two of heads"))
        return wrong
    if isinstance(config, BertConfig):
        return wrong
    kind = type(config).__name__.removesuffix("Config")
    instead = "model.kind=seq2seq" if kind == "Recurrent" else ""
    return [Obstacle(f"{kind} as the kind of model (only Transformers that read text)", instead)]


def build_spec(config: ModelConfig, weights: Weights, longest: int) -> Any:
    """The specification with all weights, without vocabularies; positions are written for `longest` tokens."""
    if isinstance(config, Seq2SeqConfig):
        return seq2seq_spec(config, weights, longest)
    if isinstance(config, GPTConfig):
        return gpt_spec(config, weights, longest)
    assert isinstance(config, BertConfig)
    return bert_spec(config, weights)


def seq2seq_spec(config: Seq2SeqConfig, weights: Weights, longest: int) -> Any:
    """A Transformer of the paper as a `TransformerSpec`."""
    from ctranslate2.specs import transformer_spec as ct

    kinds = {
        "pre_norm": config.norm == "pre",
        "activation": their_activation(config.activation),
        "relative_position": config.positions == "relative",
        "head_dim": head_width(config),
        **rotary(config),
    }
    spec = ct.TransformerSpec(
        ct.TransformerEncoderSpec(config.layers, config.heads, **kinds),
        ct.TransformerDecoderSpec(config.depth, config.heads, **kinds),
    )
    for part, name in ((spec.encoder, "source_embedding"), (spec.decoder, "target_embedding")):
        part.scale_embeddings = config.scale_embedding
        embedding = part.embeddings[0] if part is spec.encoder else part.embeddings
        embedding.weight = array(embedding_of(config, weights, name))
        set_positions(part, config, weights.get(f"{name}.positions.table"), longest)
    set_stack(spec.encoder, config, weights, "encoder")
    set_stack(spec.decoder, config, weights, "decoder")
    spec.decoder.projection.weight = array(weights["output_weight"])
    spec.decoder.projection.bias = array(weights["output_bias"])
    spec.config.layer_norm_epsilon = 1e-5
    spec.config.add_source_eos = True
    return spec


def gpt_spec(config: GPTConfig, weights: Weights, longest: int) -> Any:
    """A GPT as a `TransformerDecoderModelSpec`."""
    from ctranslate2.specs import transformer_spec as ct

    spec = ct.TransformerDecoderModelSpec.from_config(
        config.layers,
        config.heads,
        pre_norm=config.norm == "pre",
        activation=their_activation(config.activation),
        with_relative_position=config.positions == "relative",
        alibi=config.positions == "linear-bias",
        alibi_use_positive_positions=False,
        **rotary(config),
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = array(weights["output_weight" if config.tie else "embedding.weight"])
    set_positions(decoder, config, weights.get("embedding.positions.table"), longest)
    set_stack(decoder, config, weights, "encoder")
    decoder.projection.weight = array(weights["output_weight"])
    spec.config.layer_norm_epsilon = config.epsilon
    return spec


def bert_spec(config: BertConfig, weights: Weights) -> Any:
    """The encoder of a BERT, with the pooler if it has one, as a `TransformerEncoderModelSpec`."""
    from ctranslate2.specs import common_spec
    from ctranslate2.specs import transformer_spec as ct

    encoder = ct.TransformerEncoderSpec(
        config.layers,
        config.heads,
        pre_norm=False,
        activation=their_activation(config.activation),
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
        layernorm_embedding=True,
    )
    spec = ct.TransformerEncoderModelSpec(encoder, pooling_layer="pooler.weight" in weights)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = array(weights["embedding.weight"])
    encoder.embeddings[1].weight = array(weights["embedding.segments"])
    encoder.position_encodings.encodings = array(weights["embedding.positions.table"])
    set_norm(encoder.layernorm_embedding, weights, "embedding.norm")
    set_stack(encoder, config, weights, "encoder")
    if "pooler.weight" in weights:
        set_linear(spec.pooler_dense, weights, "pooler")
    spec.config.layer_norm_epsilon = config.epsilon
    return spec


def array(tensor: Tensor) -> Array:
    """A copy of a weight, because CTranslate2 quantises in place."""
    found: Array = tensor.detach().float().numpy().copy(order="C")
    return found


def their_activation(ours: str) -> Any:
    """Their value for one of our activations."""
    from ctranslate2.specs.common_spec import Activation

    return Activation[ACTIVATIONS[ours]]


def widths(config: Seq2SeqConfig | GPTConfig | BertConfig) -> tuple[int, int]:
    """d_k and d_v of every head."""
    usual = config.d_model // config.heads
    if isinstance(config, Seq2SeqConfig):
        return config.d_k or usual, config.d_v or usual
    return usual, usual


def head_width(config: Seq2SeqConfig) -> int | None:
    """The one width that CTranslate2 uses for all parts of a head, or None if it is the usual one; narrower parts are padded."""
    width = max(widths(config))
    return None if width * config.heads == config.d_model else width


def rotary(config: Seq2SeqConfig | GPTConfig) -> JsonObject:
    """Arguments of a specification for rotary positions."""
    d_k = widths(config)[0]
    return {"rotary_dim": d_k, "rotary_interleave": True} if config.positions == "rotary" else {}


def embedding_of(config: Seq2SeqConfig, weights: Weights, name: str) -> Tensor:
    """The matrix of an embedding, which may be stored as the output weight only."""
    return weights.get(f"{name}.weight", weights["output_weight"])


def set_positions(part: Any, config: Seq2SeqConfig | GPTConfig, learned: Tensor | None, longest: int) -> None:
    """Positions that are added to embeddings; zeros where the part has a table but our model adds nothing."""
    if not hasattr(part, "position_encodings"):
        return
    if config.positions == "rotary":
        del part.position_encodings  # where rotary positions are, it reads no table
        return
    if learned is not None:
        beyond = learned[-1:].expand(max(0, longest - learned.size(0)), -1)  # ours share the last vector
        table = torch.cat([learned, beyond])
    elif config.positions == "sinusoidal":
        table = SinusoidalPositions(config.d_model).compute(0, longest)
    else:
        table = torch.zeros(longest, config.d_model)
    part.position_encodings.encodings = array(table)


def set_stack(part: Any, config: Seq2SeqConfig | GPTConfig | BertConfig, weights: Weights, ours: str) -> None:
    """Every layer of an encoder or a decoder, and the LayerNorm after a pre-norm stack."""
    for number, layer in enumerate(part.layer):
        name = f"{ours}.layers.{number}"
        set_attention(layer.self_attention, config, weights, f"{name}.self_attention", itself=True)
        set_norm(layer.self_attention.layer_norm, weights, f"{name}.around_self.norm")
        if hasattr(layer, "attention"):
            set_attention(layer.attention, config, weights, f"{name}.cross_attention", itself=False)
            set_norm(layer.attention.layer_norm, weights, f"{name}.around_cross.norm")
        set_linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.project_in")
        set_linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.project_out")
        set_norm(layer.ffn.layer_norm, weights, f"{name}.around_feed.norm")
    if hasattr(part, "layer_norm"):
        set_norm(part.layer_norm, weights, f"{ours}.norm")


def set_attention(spec: Any, config: Seq2SeqConfig | GPTConfig | BertConfig, weights: Weights, name: str, itself: bool) -> None:
    """A multi-head attention. Where d_k and d_v differ, the narrower parts get zeros that change no product."""
    d_k, d_v = widths(config)
    width, heads = max(d_k, d_v), config.heads
    sizes = [heads * d_k, heads * d_k, heads * d_v]
    parts = []
    for stored in (weights[f"{name}.project_in.weight"], weights[f"{name}.project_in.bias"][:, None]):
        parts.append([widen(part, heads, width) for part in stored.split(sizes)])
    groups = ([0, 1, 2],) if itself else ([0], [1, 2])
    for linear, group in zip(spec.linear, groups, strict=False):
        linear.weight = array(torch.cat([parts[0][index] for index in group]))
        linear.bias = array(torch.cat([parts[1][index] for index in group]).squeeze(-1))
    out = widen(weights[f"{name}.project_out.weight"].T, heads, width).T
    spec.linear[-1].weight = array(out)
    spec.linear[-1].bias = array(weights[f"{name}.project_out.bias"])
    if width != d_k:
        spec.queries_scale = np.float32(1 / math.sqrt(d_k))
    table = weights.get(f"{name}.positions.table")
    if table is not None:
        # Theirs are indexed by key − query, ours by query − key.
        spec.relative_position_keys = array(torch.nn.functional.pad(table.flip(0), (0, width - d_k)))
        spec.relative_position_values = np.zeros((table.size(0), width), dtype=np.float32)


def widen(weight: Tensor, heads: int, width: int) -> Tensor:
    """Rows (H·K, n) of a linear map, each head padded with zero rows: (H·width, n)."""
    split = weight.unflatten(0, (heads, -1))
    return torch.nn.functional.pad(split, (0, 0, 0, width - split.size(1))).flatten(0, 1)


def set_linear(spec: Any, weights: Weights, name: str) -> None:
    """A linear map."""
    spec.weight, spec.bias = array(weights[f"{name}.weight"]), array(weights[f"{name}.bias"])


def set_norm(spec: Any, weights: Weights, name: str) -> None:
    """A LayerNorm."""
    spec.gamma, spec.beta = array(weights[f"{name}.weight"]), array(weights[f"{name}.bias"])


def vocabulary(names: Sequence[str | None], size: int) -> list[str]:
    """A name for each of `size` ids; ids without a token get names that no text contains."""
    known = {name for name in names if name is not None}
    listed = [names[number] if number < len(names) else None for number in range(size)]
    return [name if name is not None else unused_name(number, known) for number, name in enumerate(listed)]


def unused_name(number: int, known: set[str]) -> str:
    """A name for an id that has no token."""
    name = f"<unused {number}>"
    while name in known:
        name = f"<{name}>"
    return name
