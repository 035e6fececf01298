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
from heedful.nn.fast.decoder_layer import FastDecoderLayer
from heedful.nn.positions import RotaryPositions

ROOM = 16  # steps for which fresh buffers have room
GROUPS = 6  # of sources of different lengths; more of them are padded and become one
TIDY = 24  # columns per hypothesis that may be added before those on no path are removed


class LayerKeys(NamedTuple):
    """Keys and values of the target so far in a layer: (S · H, ≥ N, K or V)."""

    key: Tensor
    value: Tensor


class Sources(NamedTuple):
    """Some sources of similar length; those of other lengths are kept apart, so that short ones are not padded to long ones."""

    number: int  # S
    mask: Tensor  # (S, 1, 1, L): 0, or −∞ on padding
    keys: list[tuple[Tensor, Tensor]]  # keys and values of each layer: (S · H, L, K or V)

    def picked(self, rows: Tensor, heads: int) -> Sources:
        """Those of these rows, without columns that are padding everywhere."""
        mask = self.mask.index_select(0, rows)
        longest = most(mask[:, 0, 0] == 0.0)
        of_head = (rows[:, None] * heads + torch.arange(heads)).flatten()  # (S · H,)
        keys = [
            (key[:, :longest].index_select(0, of_head), value[:, :longest].index_select(0, of_head)) for key, value in self.keys
        ]
        return Sources(len(rows), mask[..., :longest], keys)


class FastDecoder:
    """A decoder at work: its layers, and the keys and values of the sentences that are being decoded."""

    def __init__(self, decoder: Decoder, embedding: TokenEmbedding, beam: int) -> None:
        self.decoder, self.embedding, self.beam = decoder, embedding, beam
        blocks = [layer for layer in decoder.layers if isinstance(layer, DecoderLayer)]
        self.blocks = [FastDecoderLayer(block) for block in blocks]
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
        """Whether this is a decoder that can be computed here: full attention, positions that need no bias on the scores."""
        return all(
            isinstance(layer, DecoderLayer)
            and type(layer.self_attention.attend) is FullAttention
            and (layer.self_attention.positions is None or isinstance(layer.self_attention.positions, RotaryPositions))
            for layer in decoder.layers
        )

    def join(self, sources: Sequence[SourceKeys], source_mask: Tensor) -> None:
        """Take in sentences: the keys and values of their sources in each layer, and the mask (S, L)."""
        new, columns = source_mask.size(0), self.path.size(2)
        self.uneven = self.uneven or columns > 0
        mask = self.path.new_zeros(source_mask.shape).masked_fill(~source_mask, -math.inf)[:, None, None]
        self.sources.append(Sources(new, mask, [(key.flatten(0, 1), value.flatten(0, 1)) for key, value in sources]))
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
        """Go on with these sentences (S,), which are in their order, and only with columns that are on a path of theirs."""
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
        for index, block in enumerate(self.blocks):
            layer = self.layers[index]
            if layer.key.size(1) < columns + beam:
                layer = self.layers[index] = layer._replace(key=roomier(layer.key, columns), value=roomier(layer.value, columns))
            heads = self._attend_to_target(block.queries_keys_values(x), block.widths, layer, columns, rotation)
            x = block.after_self(x, heads)
            x = block.after_cross(x, self._attend_to_source(block.cross_queries(x), index))
        self.position = self.position + 1
        states: Tensor = self.decoder.norm(x)
        return states

    def _attend_to_target(
        self, projected: Tensor, widths: Sequence[int], layer: LayerKeys, columns: int, rotation: Tensor | None
    ) -> Tensor:
        """Self-attention of queries, keys and values (R, all widths); the new keys and values are written at `columns`."""
        both, sentences = 2 * widths[0], len(self.position)
        query, key, value = projected.split(widths, 1)
        if rotation is not None:
            if projected.size(1) % 2:  # a complex number begins at an even place
                projected = projected[:, :both].contiguous()
            pairs = torch.view_as_complex(projected[:, :both].view(len(projected), 2 * self.heads, -1, 2))
            pairs.mul_(rotation.to(pairs.dtype))
            query, key = projected[:, : widths[0]], projected[:, widths[0] : both]
        end = columns + self.beam
        for buffer, new in ((layer.key, key), (layer.value, value)):
            room = buffer.view(sentences, self.heads, buffer.size(1), buffer.size(2))[:, :, columns:end]
            room.copy_(new.view(sentences, self.beam, self.heads, buffer.size(2)).transpose(1, 2))
        mask = self.path[:, None] if self.beam > 1 or self.uneven else None
        return self._weighted(query, layer.key[:, :end], layer.value[:, :end], mask)

    def _attend_to_source(self, query: Tensor, layer: int) -> Tensor:
        """Cross-attention of queries (R, H · K) → (R, H · V)"""
        groups = zip(query.split([group.number * self.beam for group in self.sources]), self.sources, strict=True)
        heads = [self._weighted(part, *group.keys[layer], group.mask) for part, group in groups]
        return torch.cat(heads) if len(heads) > 1 else heads[0]

    def _weighted(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of queries (R, H · K) over keys and values (S · H, N, K or V); mask (S, 1, B or 1, N) → (R, H · V)."""
        rows, beam, heads = len(query), self.beam, self.heads
        if beam == 1:
            query = query.reshape(rows * heads, 1, key.size(2))  # (S · H, B, K)
        else:
            query = query.view(-1, beam, heads, key.size(2)).transpose(1, 2).reshape(-1, beam, key.size(2))
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(key.size(2) ** -0.5)  # (S · H, B, N)
        if mask is not None:
            scores.view(-1, heads, beam, key.size(1)).add_(mask)
        attended = torch.bmm(torch.softmax(scores, -1, out=scores), value)  # (S · H, B, V)
        if beam == 1:
            return attended.view(rows, heads * value.size(2))
        return attended.view(-1, heads, beam, value.size(2)).transpose(1, 2).reshape(rows, heads * value.size(2))


def most(mask: Tensor) -> int:
    """The most true values in a row of (S, N)."""
    return int(mask.sum(1).max()) if len(mask) else 0


def together(groups: Sequence[Sources]) -> Sources:
    """All sources in one group, padded to the longest."""
    longest = max(group.mask.size(3) for group in groups)
    mask = torch.cat([F.pad(group.mask, (0, longest - group.mask.size(3)), value=-math.inf) for group in groups])
    layers = zip(*(group.keys for group in groups), strict=True)
    keys = [
        tuple(torch.cat([F.pad(x, (0, 0, 0, longest - x.size(1))) for x in column]) for column in zip(*layer, strict=True))
        for layer in layers
    ]
    return Sources(len(mask), mask, [(key, value) for key, value in keys])


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
