"""Whether a search fits into memory, told before it begins."""

from __future__ import annotations

from typing import Any

from heedful.errors import UsageError
from heedful.runtime.device import memory_of_machine

SHARE = 0.25  # of the machine's memory that one search may take
FLOAT = 4  # bytes


def check_beam(config: Any, beam: int, positions: int) -> None:
    """Stop when the beams of a single input would take too much memory; `positions` are those a beam remembers."""
    vocabulary = getattr(config, "target_vocab", None) or config.vocab
    layers = getattr(config, "decoder_layers", None) or config.layers
    scores = 6 * vocabulary  # logits, log-probabilities, their sums, and what finding the best of them takes
    cache = 4 * layers * positions * config.d_model  # keys and values, and their copies when beams change places
    per_beam = FLOAT * (scores + cache)
    widest = int(SHARE * memory_of_machine() / per_beam)
    if beam > max(1, widest):
        raise UsageError(
            f"a beam of {beam:,} would take about {beam * per_beam / 1e9:,.0f} GB for this model and input; "
            f"on this machine it can be at most {max(1, widest):,}"
        )
