"""BPE dropout (Provilkov et al., 2020): merges undone at random, so that a model sees a word in several segmentations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BpeDropout:
    """Undoes BPE merges at random.

    A token is replaced with this probability by the two it was merged from, which may be split in turn. The result for a row
    depends only on the seed, the epoch, the index of its pair and its side, not on the process that computes it.
    """

    probability: float
    seed: int
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]  # `Tokenizer.halves` of the source's and the target's tokenizer

    def split(self, row: NDArray[np.uint32], side: int, epoch: int, index: int) -> NDArray[np.uint32]:
        """The ids of a pair's source (side 0) or target (side 1) with some tokens split."""
        rng, halves = np.random.default_rng([self.seed, epoch, index, side]), self.halves[side]
        fresh = np.ones(len(row), dtype=bool)  # tokens not yet considered for splitting
        while True:
            taken = fresh & (halves[row, 0] >= 0) & (rng.random(len(row)) < self.probability)
            if not taken.any():
                return row
            fresh, parts = np.repeat(taken, 1 + taken), np.repeat(row, 1 + taken)
            parts[fresh] = halves[row[taken]].ravel()
            row = parts
