"""The length penalty of beam search (Section 6.1; Wu et al., 2016)."""

from __future__ import annotations


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α (Wu et al., 2016), by which a log-probability is divided."""
    return float(((5 + length) / 6) ** alpha)
