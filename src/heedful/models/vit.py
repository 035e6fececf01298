"""The Vision Transformer (Dosovitskiy et al., 2020): an encoder over the patches of an image.

Shapes: B batch, C channels, H and W height and width, P patch side, N patches, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor, nn

from heedful.errors import UsageError
from heedful.models.attention_settings import AttentionFields
from heedful.models.checks import check_heads, check_reach
from heedful.models.model import Model
from heedful.nn.dropout import Dropout
from heedful.nn.encoder import build_encoder
from heedful.nn.fast.linear import Linear
from heedful.nn.feedforward import Activation
from heedful.nn.initialisation import Init, initialise
from heedful.nn.pooling import AttentionPooling, Pooling, class_scores, first_token, mean_pooling
from heedful.nn.trace import Trace
from heedful.settings import Epsilon, Layers, Share, Width, check_fields, setting

Pixels = Annotated[int, Interval(ge=1, le=16_384)]


@dataclass(frozen=True)
class ViTConfig(AttentionFields):
    """Every setting of a Vision Transformer; the defaults are ViT-base with patches of 16."""

    classes: Annotated[int, Interval(ge=1, le=10**7)]
    image_size: Pixels = setting(224, "side of the square that positions are learned for; for other sizes they are interpolated")
    channels: Annotated[int, Interval(ge=1, le=1024)] = setting(3, "3 is colour, 1 is grey")
    patch: Pixels = setting(16, "side of a patch in pixels")
    layers: Layers = setting(12, "encoder layers")
    d_model: Width = setting(768, "width of the residual stream")
    d_ff: Width = setting(3072, "width of the feed-forward network")
    heads: Width = setting(12, "attention heads")
    dropout: Share = setting(0.0, "after embeddings and sub-layers")
    attention_dropout: Share = setting(0.0, "of attention weights")
    activation: Activation = setting("gelu", "of the feed-forward network")
    epsilon: Epsilon = setting(1e-12, "of every LayerNorm")
    pooling: Pooling = setting("cls", "how an image becomes one vector: `cls`, `mean` or `attention`")
    init: Init = setting("normal-0.02", "initialisation of matrices, with variance 2/(n_in + n_out), 1/n_in, 2/n_in or 0.02²")

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_attention()
        check_heads(self.d_model, self.heads)
        if self.image_size % self.patch:
            raise UsageError(f"image_size {self.image_size} is not a multiple of patch {self.patch}")

    @property
    def grid(self) -> int:
        """Patches along a side of the square the positions are learned for."""
        return self.image_size // self.patch


def cut_patches(images: Tensor, patch: int) -> Tensor:
    """Images (B, C, H, W) → their patches, row by row, each flattened: (B, N, C·P·P)."""
    rows = images.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # (B, C, H/P, P, W/P, P)
    patches: Tensor = rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    return patches


class PatchEmbedding(nn.Module):
    """Dropout([CLS; patches W + b] + position). The linear map of patches is a convolution of kernel size and stride P."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patch, self.grid, self.channels = config.patch, config.grid, config.channels
        self.project = Linear(config.channels * config.patch**2, config.d_model)
        self.cls = nn.Parameter(torch.empty(1, config.d_model))
        self.positions = nn.Parameter(torch.empty(1 + config.grid**2, config.d_model))  # [CLS], then the patches
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) → (B, 1 + N, D)"""
        channels, height, width = images.shape[1:]
        if channels != self.channels:
            raise UsageError(f"the images have {channels} channels but the model reads {self.channels}")
        if height % self.patch or width % self.patch or not height or not width:
            raise UsageError(
                f"an image of {height}×{width} cannot be cut into patches of {self.patch}×{self.patch}; "
                f"resize it so that both sides are multiples of {self.patch}"
            )
        x = self.project(cut_patches(images, self.patch))
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        embedded: Tensor = self.dropout(x + self.positions_for(height // self.patch, width // self.patch))
        return embedded

    def positions_for(self, rows: int, columns: int) -> Tensor:
        """(1 + rows·columns, D): the learned positions, interpolated for a grid of another size."""
        if rows == columns == self.grid:
            return self.positions
        square = self.positions[1:].T.unflatten(1, (self.grid, self.grid))[None]  # (1, D, grid, grid)
        other = nn.functional.interpolate(square, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.positions[:1], other[0].flatten(1).T])


class ViT(Model):
    """A pre-norm encoder over the patches of an image, and a linear classifier."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embedding = PatchEmbedding(c)
        self.encoder = build_encoder(
            c.layers,
            c.d_model,
            c.d_ff,
            c.heads,
            dropout=c.dropout,
            attention_dropout=c.attention_dropout,
            activation=c.activation,
            norm="pre",
            epsilon=c.epsilon,
            attention=c.attention(max_length=1 + c.grid**2),
        )
        if c.pooling == "attention":
            self.pooling = AttentionPooling(c.d_model, c.heads, c.classes)
        self.classifier = Linear(c.d_model, c.classes)
        initialise(self, c.init)

    def states(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) → states (B, 1 + N, D) of [CLS] and every patch, row by row."""
        embedded = self.embedding(images)
        check_reach(self.encoder.longest, embedded.size(1), "image_size")
        states: Tensor = self.encoder(embedded)
        return states

    @torch.no_grad()
    def trace(self, images: Tensor) -> Trace:
        """The same as `states`, with the attention weights ("encoder") and hidden states of every layer.

        With pooling="attention", the attention "pooling" has the weights (B, H, classes, N) of the learned queries.
        """
        states, layers = self.encoder(self.embedding(images), return_layers=True)
        trace = Trace(states, {"encoder": layers.self_attention}, {"encoder": layers.hidden})
        if self.config.pooling == "attention":
            trace.attention["pooling"] = [self.pooling(states[:, 1:], return_weights=True)[1]]
        return trace

    def pooled(self, states: Tensor) -> Tensor:
        """States (B, 1 + N, D) → one vector per image (B, D); with pooling="attention", one per class (B, classes, D).

        The mean and the queries leave [CLS] out.
        """
        if self.config.pooling == "mean":
            return mean_pooling(states[:, 1:])
        if self.config.pooling == "attention":
            found: Tensor = self.pooling(states[:, 1:])
            return found
        return first_token(states)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, C, H, W) → logits (B, classes)."""
        return class_scores(self.pooled(self.states(images)), self.classifier)
