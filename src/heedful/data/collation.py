"""Collation: rows of ids framed by begin and end tokens ([CLS] and [SEP]) and padded into the tensors of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.text import Tokenizer


@dataclass(frozen=True)
class TensorBatch:
    """The tensors of a batch; subclasses name them."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        return type(self)(*(getattr(self, name).to(device, non_blocking=True) for name in self.__dataclass_fields__))

    def twice(self) -> Self:
        """The batch concatenated with itself."""
        return type(self)(*(torch.cat([getattr(self, name)] * 2) for name in self.__dataclass_fields__))

    def pieces(self, positions: int) -> list[Self]:
        """The batch split into smaller ones of about `positions` positions; whole if the first tensor is not (B, L)."""
        tensors = [getattr(self, name) for name in self.__dataclass_fields__]
        if tensors[0].dim() != 2:
            return [self]
        count = max(1, min(len(tensors[0]), round(tensors[0].numel() / positions)))
        return [type(self)(*parts) for parts in zip(*(tensor.chunk(count) for tensor in tensors), strict=True)]


@dataclass(frozen=True)
class Batch(TensorBatch):
    """Pairs as padded tensors: source (B, L) and target input and output (B, T), with masks that are False at padding."""

    source: Tensor
    source_mask: Tensor
    target_in: Tensor  # the begin token, then the target
    target_out: Tensor  # the target, then the end token
    target_mask: Tensor


@dataclass(frozen=True)
class SpecialIds:
    """The ids of the special tokens that frame a source and a target."""

    source_pad: int
    source_eos: int
    target_pad: int
    target_bos: int
    target_eos: int


def special_ids(source: Tokenizer, target: Tokenizer) -> SpecialIds:
    """The framing ids of two tokenizers."""
    return SpecialIds(source.pad, source.eos, target.pad, target.bos, target.eos)


def frame(rows: list[NDArray[np.uint32]], pad: int, before: int | None, after: int | None) -> tuple[Tensor, Tensor]:
    """Rows of ids with `before` and `after` added and padded: (B, L) ids and their (B, L) mask."""
    extra = (before is not None) + (after is not None)
    ids = np.full((len(rows), max(len(row) for row in rows) + extra), pad, dtype=np.int64)
    lengths = np.fromiter((len(row) + extra for row in rows), dtype=np.int64, count=len(rows))
    first = 0 if before is None else 1
    for index, row in enumerate(rows):
        ids[index, first : first + len(row)] = row
    if before is not None:
        ids[:, 0] = before
    if after is not None:
        ids[np.arange(len(rows)), lengths - 1] = after
    return torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1]) < lengths[:, None])


def collate(sources: list[NDArray[np.uint32]], targets: list[NDArray[np.uint32]], special: SpecialIds) -> Batch:
    """Pairs of id rows as one padded batch."""
    source_ids, source_mask = frame(sources, special.source_pad, None, special.source_eos)
    target_in, target_mask = frame(targets, special.target_pad, special.target_bos, None)
    target_out, _ = frame(targets, special.target_pad, None, special.target_eos)
    return Batch(source_ids, source_mask, target_in, target_out, target_mask)


def segments_of(length: int, firsts: Sequence[int]) -> Tensor:
    """(B, length) segment ids: 0 for [CLS] A [SEP], 1 after it, where `firsts` gives the number of tokens of each A."""
    return (torch.arange(length) >= torch.tensor(firsts)[:, None] + 2).long()
