"""BERT's masking: which tokens of a row the model must predict, and what replaces them (BERT, Section 3.1)."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from heedful.data.sentence_pairs import SentencePair
from heedful.text import Tokenizer


def mask_tokens(
    example: SentencePair, tokenizer: Tokenizer, share: float, vocabulary: int, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.uint32]]:
    """Two texts as one row with a share of the tokens masked: the row, the mask of positions to predict, and their tokens.

    Of the tokens to predict, 80 % become [MASK], 10 % a random token, and 10 % stay unchanged (BERT, Section 3.1). Without
    an rng, the texts themselves seed the choice, so that validation is always the same.
    """
    first, second, _ = example
    row = np.array([*first, tokenizer.eos, *second], dtype=np.uint32)
    rng = rng or np.random.default_rng(zlib.crc32(row.tobytes()))
    maskable = np.arange(len(row)) != len(first)  # not the separator
    count = max(1, round(share * int(maskable.sum())))
    places = np.sort(rng.permutation(maskable.nonzero()[0])[:count])
    where = np.zeros(len(row), dtype=np.bool_)
    where[places] = True
    answers = row[places].copy()
    sampled = rng.random(count)
    assert tokenizer.mask is not None
    row[places[sampled < 0.8]] = tokenizer.mask
    others = places[(sampled >= 0.8) & (sampled < 0.9)]
    row[others] = rng.integers(0, vocabulary, len(others))
    return row, where, answers
