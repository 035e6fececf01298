"""The decoder, step by step, for many sentences with a beam of hypotheses each: faster than `nn/decoder.py`, tested equal to it.

The hypotheses of a sentence are the queries of one attention: over the keys of its source, which they share, and over the keys
of all its hypotheses so far, of which a mask shows each one its own path. When a beam is reordered, rows of that mask move;
keys and values stay where they are, until those on no path are removed.
Shapes: S sentences, B beam, R = S · B rows, H heads, N columns of earlier keys, L source length, K d_k, V d_v, D d_model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention.full import FullAttention
from heedful.nn.cache import SourceKeys
from heedful.nn.decoder import Decoder, DecoderLayer
from heedful.nn.embeddings import TokenEmbedding
from heedful.nn.fast.decoder_layer import LayerKeys, layers_function, layout_of, weights_of
from heedful.nn.positions import RotaryPositions

ROOM = 16  # steps that new buffers have room for
GROUPS = 6  # of sources of different lengths; more than that are padded and merged
TIDY = 24  # columns per hypothesis added before unused ones are removed


class Sources(NamedTuple):
    """Some sources of similar length; those of other lengths are kept apart, so that short ones are not padded to long ones."""

    number: int  # S
    mask: Tensor  # (S, 1, 1, L): 0, or −∞ on padding
    keys: list[LayerKeys]  # of each layer: (S · H, L, K or V)

    def picked(self, rows: Tensor, heads: int) -> Sources:
        """Those of these rows, without columns that are padding everywhere."""
        mask = self.mask.index_select(0, rows)
        longest = most(mask[:, 0, 0] == 0.0)
        of_head = (rows[:, None] * heads + torch.arange(heads)).flatten()  # (S · H,)
        keys = [LayerKeys(*(x[:, :longest].index_select(0, of_head) for x in layer)) for layer in self.keys]
        return Sources(len(rows), mask[..., :longest], keys)


class FastDecoder:
    """A running decoder: its layers, and the keys and values of the sentences being decoded."""

    def __init__(self, decoder: Decoder, embedding: TokenEmbedding, beam: int) -> None:
        self.decoder, self.embedding, self.beam = decoder, embedding, beam
        blocks = [layer for layer in decoder.layers if isinstance(layer, DecoderLayer)]
        self.weights, self.layout, self.run_layers = [*map(weights_of, blocks)], layout_of(blocks[0], beam), layers_function()
        first = blocks[0].self_attention
        self.heads, self.rotary = first.heads, first.positions if isinstance(first.positions, RotaryPositions) else None
        self.layers: list[LayerKeys] = []
        self.sources: list[Sources] = []  # of the sentences, in their order
        dtype = embedding.weight.dtype
        self.path = torch.zeros(0, beam, 0, dtype=dtype)  # (S, B, N): 0 on the columns of a hypothesis' path, −∞ on others
        self.position = torch.zeros(0, dtype=torch.long)  # (S,) of the next token
        self.uneven = False  # whether some column is on no path of some sentence; among several hypotheses it always may be
        self.tidied = 0  # columns that there were after the last tidying

    @staticmethod
    def fits(decoder: Decoder) -> bool:
        """Whether this decoder is supported: full attention, and positions without a bias on the scores."""
        return all(
            isinstance(layer, DecoderLayer)
            and type(layer.self_attention.attend) is FullAttention
            and (layer.self_attention.positions is None or isinstance(layer.self_attention.positions, RotaryPositions))
            for layer in decoder.layers
        )

    def join(self, sources: Sequence[SourceKeys], source_mask: Tensor) -> None:
        """Add sentences: the keys and values of their sources in each layer, and the mask (S, L)."""
        new, columns = source_mask.size(0), self.path.size(2)
        self.uneven = self.uneven or columns > 0
        mask = self.path.new_zeros(source_mask.shape).masked_fill(~source_mask, -math.inf)[:, None, None]
        self.sources.append(Sources(new, mask, [LayerKeys(key.flatten(0, 1), value.flatten(0, 1)) for key, value in sources]))
        if len(self.sources) > GROUPS:
            self.sources = [together(self.sources)]
        self.path = torch.cat([self.path, self.path.new_full((new, self.beam, columns), -math.inf)])
        self.position = torch.cat([self.position, torch.zeros(new, dtype=torch.long)])
        capacity = columns + ROOM * self.beam
        if not self.layers:
            self.layers = [LayerKeys(*(x.new_empty(0, 0, x.size(3)) for x in source)) for source in sources]
        for index, layer in enumerate(self.layers):
            self.layers[index] = LayerKeys(*(widened(x[:, :columns], new * self.heads, capacity) for x in layer))

    def keep(self, rows: Tensor) -> None:
        """Keep these sentences (S,), listed in their order, and only columns that are on a path of theirs."""
        path = self.path.index_select(0, rows)
        on_path = (path == 0.0).any(1)  # (S, N)
        count = most(on_path)
        columns = on_path.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :count]  # (S, count)
        self.path = path.gather(2, columns[:, None].expand(-1, self.beam, -1))
        self.uneven = not bool((self.path == 0.0).all())
        self.position = self.position.index_select(0, rows)
        self.tidied = count
        of_head = (rows[:, None] * self.heads + torch.arange(self.heads)).flatten()  # (S · H,)
        columns = columns.repeat_interleave(self.heads, 0)  # (S · H, count)
        for index, layer in enumerate(self.layers):
            self.layers[index] = LayerKeys(*(picked(x, of_head, columns, count + ROOM * self.beam) for x in layer))
        first, kept = 0, []
        for group in self.sources:
            inside = rows[(rows >= first) & (rows < first + group.number)] - first
            kept += [group.picked(inside, self.heads)] if len(inside) else []
            first += group.number
        self.sources = kept

    def reorder(self, origins: Tensor) -> None:
        """Let each hypothesis continue the one at place `origins` (S, B) of its sentence."""
        if self.beam > 1:
            self.path = self.path.gather(1, origins[:, :, None].expand(-1, -1, self.path.size(2)))

    def step(self, tokens: Tensor) -> Tensor:
        """The newest token of each hypothesis (S, B) → states (R, D), from which the next one is predicted."""
        sentences, beam = tokens.shape
        if self.path.size(2) - self.tidied >= TIDY * beam and beam > 1:
            self.keep(torch.arange(sentences))
        columns = self.path.size(2)
        own = self.path.new_full((beam, beam), -math.inf).fill_diagonal_(0.0).expand(sentences, -1, -1)
        self.path = torch.cat([self.path, own], 2)
        start = self.position.repeat_interleave(beam)  # (R,)
        rotation = None if self.rotary is None else self.rotary.rotation(start)[:, None]  # (R, 1, K/2)
        x = self.embedding(tokens.view(-1, 1), start).squeeze(1)  # (R, D)
        for index, layer in enumerate(self.layers):
            if layer.key.size(1) < columns + beam:
                self.layers[index] = LayerKeys(*(roomier(x, columns) for x in layer))
        path = self.path[:, None] if beam > 1 or self.uneven else None
        sources = [list(layer) for layer in zip(*(group.keys for group in self.sources), strict=True)]
        masks = [group.mask for group in self.sources]
        x = self.run_layers(x, self.weights, self.layers, columns, path, rotation, sources, masks, self.layout)
        self.position = self.position + 1
        states: Tensor = self.decoder.norm(x)
        return states


def most(mask: Tensor) -> int:
    """The most true values in a row of (S, N)."""
    return int(mask.sum(1).max()) if len(mask) else 0


def together(groups: Sequence[Sources]) -> Sources:
    """All sources in one group, padded to the longest."""
    longest = max(group.mask.size(3) for group in groups)
    mask = torch.cat([F.pad(group.mask, (0, longest - group.mask.size(3)), value=-math.inf) for group in groups])
    layers = zip(*(group.keys for group in groups), strict=True)
    keys = [
        LayerKeys(*(torch.cat([F.pad(x, (0, 0, 0, longest - x.size(1))) for x in column]) for column in zip(*layer, strict=True)))
        for layer in layers
    ]
    return Sources(len(mask), mask, keys)


def widened(buffer: Tensor, rows: int, capacity: int) -> Tensor:
    """A buffer with so many more rows and this capacity; what is on no path of a hypothesis must still be finite."""
    wider = buffer.new_empty(len(buffer) + rows, capacity, buffer.size(2))
    wider[: len(buffer), : buffer.size(1)] = buffer
    wider[len(buffer) :, : buffer.size(1)] = 0.0
    return wider


def roomier(buffer: Tensor, filled: int) -> Tensor:
    """A buffer of twice the length with the same beginning."""
    larger = buffer.new_empty(buffer.size(0), 2 * buffer.size(1), buffer.size(2))
    larger[:, :filled] = buffer[:, :filled]
    return larger


def picked(buffer: Tensor, rows: Tensor, columns: Tensor, capacity: int) -> Tensor:
    """A buffer (rows, capacity, width) that begins with these columns (rows, N) of these rows of the given one."""
    found = buffer.new_empty(len(rows), capacity, buffer.size(2))
    numbers = (rows[:, None] * buffer.size(1) + columns).flatten()
    found[:, : columns.size(1)] = buffer.flatten(0, 1).index_select(0, numbers).view(*columns.shape, buffer.size(2))
    return found
