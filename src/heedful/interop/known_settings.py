"""The settings of models that the exports were written for; a newer one that is switched on is refused, not left out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from heedful.models.attention_settings import AttentionFields

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

KNOWN = {
    "Seq2SeqConfig": (
        "source_vocab target_vocab layers decoder_layers d_model d_ff heads d_k d_v dropout attention_dropout activation norm "
        "positions max_positions max_distance tie scale_embedding embedding_start reads"
    ),
    "GPTConfig": (
        "vocab layers d_model d_ff heads context dropout attention_dropout activation norm epsilon positions max_distance tie"
    ),
    "BertConfig": (
        "vocab layers d_model d_ff heads max_positions segments dropout attention_dropout activation epsilon head classes pooling"
    ),
    "ViTConfig": (
        "classes image_size channels patch layers d_model d_ff heads dropout attention_dropout activation epsilon pooling"
    ),
}
# Of no consequence for a trained model with full attention; other kinds of attention are refused.
IGNORED = {one.name for one in dataclasses.fields(AttentionFields)} - {"attention_kind"} | {"init"}


def unknown_settings(config: ModelConfig) -> list[str]:
    """Settings that no export knows, where they are not at their defaults."""
    known = KNOWN.get(type(config).__name__, "").split()
    return [
        f"{field.name} = {getattr(config, field.name)!r} (only {field.default!r})"
        for field in dataclasses.fields(config)
        if known and field.name not in (*known, *IGNORED) and getattr(config, field.name) != field.default
    ]
