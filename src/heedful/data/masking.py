"""BERT's masking: which tokens of a row a model has to guess, and what is shown in their place."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from heedful.data.sentence_pairs import SentencePair
from heedful.text import Tokenizer


def mask_tokens(
    example: SentencePair, tokenizer: Tokenizer, share: float, vocabulary: int, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.uint32]]:
    """Two texts as one row with some tokens hidden: the row, where they are, and what they were.

    Of the share that is to be guessed 80 % become [MASK], 10 % another token, 10 % stay (BERT, Section 3.1). Without an
    rng the choice follows from the texts themselves, so that a validation is always the same.
    """
    first, second, _ = example
    row = np.array([*first, tokenizer.eos, *second], dtype=np.uint32)
    rng = rng or np.random.default_rng(zlib.crc32(row.tobytes()))
    open_to = np.arange(len(row)) != len(first)  # not the separator
    count = max(1, round(share * int(open_to.sum())))
    places = np.sort(rng.permutation(open_to.nonzero()[0])[:count])
    where = np.zeros(len(row), dtype=np.bool_)
    where[places] = True
    answers = row[places].copy()
    draw = rng.random(count)
    assert tokenizer.mask is not None
    row[places[draw < 0.8]] = tokenizer.mask
    others = places[(draw >= 0.8) & (draw < 0.9)]
    row[others] = rng.integers(0, vocabulary, len(others))
    return row, where, answers
