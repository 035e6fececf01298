"""Whether a search fits into memory, checked before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heedful.errors import UsageError
from heedful.models.gpt import GPTConfig
from heedful.runtime.device import memory_of_machine

if TYPE_CHECKING:
    from heedful.models.recurrent import RecurrentConfig
    from heedful.models.seq2seq import Seq2SeqConfig

SHARE = 0.25  # of the machine's memory that one search may take
FLOAT = 4  # bytes


def check_beam(config: Seq2SeqConfig | RecurrentConfig | GPTConfig, beam: int, positions: int) -> None:
    """Raise an error if the beam of one input would take too much memory; `positions` is the number cached per hypothesis."""
    vocabulary = config.vocab if isinstance(config, GPTConfig) else config.target_vocab
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
