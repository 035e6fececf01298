"""Detects outputs that repeat themselves, and implements two common ways to prevent it.

Both change the logits of the next token by what was written before: `repetition_penalty` (Keskar et al., 2019, Section 4.1)
and a ban on repeated n-grams (Paulus et al., 2018, Section 2.5), as in Hugging Face Transformers and CTranslate2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

LONGEST_LOOP = 8  # longest repeated unit, in tokens or words
TIMES = 4  # repetitions in a row that count as a loop: three may be intended


def discourage_repetition(logits: Tensor, written: Sequence[int], no_repeat_ngram: int, repetition_penalty: float) -> None:
    """Change the logits (V,) of the token after `written`, in place.

    With a penalty θ, logits of tokens that were written are divided by θ if positive, and multiplied otherwise. A token that
    would complete an n-gram that was written has probability zero.
    """
    if repetition_penalty != 1.0 and written:
        seen = torch.tensor(sorted(set(written)), device=logits.device)
        values = logits[seen]
        logits[seen] = torch.where(values < 0, values * repetition_penalty, values / repetition_penalty)
    if no_repeat_ngram and (banned := ngram_ends(written, no_repeat_ngram)):
        logits[banned] = -math.inf


def ngram_ends(written: Sequence[int], n: int) -> list[int]:
    """The tokens that, as the next one, would repeat an n-gram."""
    last = list(written[len(written) - n + 1 :]) if n > 1 else []
    if len(written) < n:
        return []
    return sorted({written[i + n - 1] for i in range(len(written) - n + 1) if list(written[i : i + n - 1]) == last})


def repeats_itself(tokens: Sequence[object]) -> bool:
    """Whether a few tokens occur four times in a row somewhere, as when decoding is stuck in a loop."""
    for size in range(1, LONGEST_LOOP + 1):
        # Tokens equal to the one `size` places before; enough of them in a row are a loop.
        equal = [a == b for a, b in zip(tokens, tokens[size:], strict=False)]
        ends = [-1, *(i for i, same in enumerate(equal) if not same), len(equal)]
        if any(end - start - 1 >= (TIMES - 1) * size for start, end in pairwise(ends)):
            return True
    return False
