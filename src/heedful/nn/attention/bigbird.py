"""BigBird (Zaheer et al., 2020): a window, global tokens and random tokens, all of them whole blocks."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.nn.attention.sparse import Keys, SparseAttention


class BigBirdAttention(SparseAttention):
    """Blocks of `block` tokens. A block sees the blocks beside it, the first ones, which are global, and random ones.

    `window` and `global_tokens` are rounded up to blocks. The random blocks of block m are spread over the sequence: one from
    each of `random_blocks` equal parts of what is neither near nor global. They depend on the seed, the layer, m and the length
    of the row alone, and with `causal` not on the length either, so that they are the same in training, in decoding and after
    loading.

    `published` is BigBird as its authors' code and Hugging Face's run it at inference: the last block of a batch is global,
    too; the first block counts 1 + `random_blocks` times in place of random blocks; and up to 5 + 2 · `random_blocks` blocks
    attention is full.
    """

    def __init__(
        self,
        window: int,
        global_tokens: int = 1,
        random_blocks: int = 3,
        block: int = 64,
        seed: int = 1,
        layer: int = 0,
        published: bool = False,
    ) -> None:
        self.beside = math.ceil(window / block)  # blocks of the window on each side
        super().__init__(self.beside * block, block)
        self.global_blocks = 1 if published else math.ceil(global_tokens / block)
        self.random_blocks = 0 if published else random_blocks
        self.published = published
        self.seed = (seed, layer)
        if published:
            self.first_counts = 1 + random_blocks
            self.full_up_to = (5 + 2 * random_blocks) * block

    def near(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        return (query_at // self.block - key_at // self.block).abs() <= self.beside

    def global_columns(self, keys: Keys) -> Tensor | None:
        count = min(self.global_blocks * self.block, keys.count)
        columns = torch.arange(count, device=keys.device) + keys.first  # (B or 1, G)
        if self.published:
            last = (keys.count - 1) // self.block * self.block
            columns = torch.cat([columns, torch.arange(max(last, count), keys.count, device=keys.device)[None]], dim=-1)
        return torch.where(columns < keys.count, columns, -1) if columns.size(-1) else None

    def drawn(self, blocks: int) -> NDArray[np.float64]:
        """A number in [0, 1) for each random block of the first blocks (blocks, random_blocks)."""
        return np.random.default_rng(self.seed).random((blocks, self.random_blocks))

    def further_columns(self, blocks: Tensor, keys: Keys) -> Tensor | None:
        if not self.random_blocks:
            return None
        r, b = self.random_blocks, self.block
        drawn = torch.from_numpy(self.drawn(int(blocks.max()) + 1)).to(blocks.device)
        earliest = torch.full_like(blocks, self.global_blocks)  # (B or 1, n): the first block that is not global
        before = (blocks - self.beside - earliest).clamp(min=0)  # how many may be drawn before the window
        after_from = torch.maximum(blocks + self.beside + 1, earliest)
        total = -(-keys.lengths // b)  # (B or 1, 1) blocks of each row
        after = torch.zeros_like(before) if keys.causal else (total - after_from).clamp(min=0)
        count = (before + after)[..., None]  # (B or 1, n, 1)
        part = torch.arange(r, device=blocks.device)
        begin, end = part * count // r, (part + 1) * count // r
        spread = begin + (drawn[blocks] * (end - begin)).long()
        index = torch.where(count > r, spread, part)  # all of them if there are no more than r
        start = torch.where(index < before[..., None], earliest[..., None], (after_from - before)[..., None])
        block = torch.where(index < count, start + index, -1)  # (B or 1, n, r)
        columns = block[..., None] * b + torch.arange(b, device=blocks.device) + keys.first[..., None, None]
        return torch.where((block[..., None] >= 0) & (columns < keys.count), columns, -1).flatten(2)
