"""Intermediate results of a model, for inspection: attention weights, scores and hidden states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from heedful.nn.attention.base import AttentionWeights

Stack = Literal["encoder", "decoder"]
Part = Literal["encoder", "decoder", "cross", "pooling"]  # self-attention of the stacks, cross-attention, attention pooling


@dataclass(frozen=True)
class LayerOutputs:
    """Results of a stack of N layers: every hidden state, and the attention weights of every layer."""

    hidden: list[Tensor]  # N + 1 of (B, L, D): the embeddings, then the output of each layer before any final LayerNorm
    self_attention: list[AttentionWeights] = field(default_factory=list)  # N
    cross_attention: list[AttentionWeights] = field(default_factory=list)  # N in a decoder


@dataclass(frozen=True)
class Trace:
    """Results of a model: its final states, the attention weights of each part by layer, and the hidden states of each stack."""

    states: Tensor  # (B, L, D), the same as the model's `states`
    attention: dict[Part, list[AttentionWeights]]
    hidden: dict[Stack, list[Tensor]]  # as in `LayerOutputs`
