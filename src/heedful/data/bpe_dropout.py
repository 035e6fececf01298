"""BPE dropout (Provilkov et al., 2020): merges undone at random, so that a model sees a word in several spellings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BpeDropout:
    """Undoes merges of BPE at random.

    With this probability a token becomes the two that it was merged from, and so may these in turn. The result for a
    row depends on the seed, the epoch and the number of its pair alone, whichever process computes it.
    """

    probability: float
    seed: int
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]  # of the source's tokenizer and the target's, `Tokenizer.halves`

    def split(self, row: NDArray[np.uint32], side: int, epoch: int, index: int) -> NDArray[np.uint32]:
        """The ids of a pair's source (side 0) or target (1) with some of them taken apart."""
        rng, halves = np.random.default_rng([self.seed, epoch, index, side]), self.halves[side]
        fresh = np.ones(len(row), dtype=bool)  # tokens that have not been asked yet
        while True:
            taken = fresh & (halves[row, 0] >= 0) & (rng.random(len(row)) < self.probability)
            if not taken.any():
                return row
            fresh, parts = np.repeat(taken, 1 + taken), np.repeat(row, 1 + taken)
            parts[fresh] = halves[row[taken]].ravel()
            row = parts
