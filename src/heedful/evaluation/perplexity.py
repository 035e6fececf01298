"""Perplexity: the number of equally likely tokens the model chooses between, on average."""

from __future__ import annotations

import math

LARGEST_LOSS = 700.0  # whose exponential a float can still hold


def perplexity(loss: float) -> float:
    """exp of the mean negative log-likelihood of a token.

    >>> round(perplexity(math.log(8)))
    8
    """
    return math.exp(min(loss, LARGEST_LOSS))
