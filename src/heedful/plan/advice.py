"""What to expect of few pairs, from what was measured, and what would help most."""

from __future__ import annotations

from collections.abc import Mapping

FEW = 15_000  # pairs; with fewer there is something to say
# Pairs of Multi30k (short image captions) → BLEU on other captions; see docs/results.md.
REACHED = {1_000: 14, 3_000: 25, 29_000: 42}
LEAST = 500  # pairs; fewer teach frequent phrases at best
HELP = {
    "model.pretrained": "a translator of the same or a related pair to start from (model.pretrained=DIRECTORY)",
    "data.monolingual_target": "where there is much time, plain text in the language translated into "
    "(data.monolingual_target=FILE; in short trainings it did harm)",
}


def advice(pairs: int, given: Mapping[str, object]) -> list[str]:
    """Lines for a person with so many pairs; `given` are the settings that are decided already."""
    if pairs >= FEW:
        return []
    measured = ", ".join(f"{bleu} with {count:,}" for count, bleu in REACHED.items())
    helps = ["more pairs of the same kind", *(words for setting, words in HELP.items() if not given.get(setting))]
    expect = "phrases it has often seen, hardly a new sentence" if pairs < LEAST else "sentences like those it has seen"
    return [
        f"{pairs:,} pairs are few: expect a model for {expect} (BLEU on image captions: {measured})",
        f"what helps most: {'; '.join(helps)}",
    ]
