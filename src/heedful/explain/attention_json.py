"""The attention of an explanation, small enough for a page: weights in thousandths, long texts cut, some layers left out."""

from __future__ import annotations

import numpy as np

from heedful.explain.explanation import Array, AttentionMap, Explanation, TokenSequence
from heedful.explain.explanation_json import sequence_json
from heedful.settings import JsonObject

LONGEST = 48  # tokens of a text whose attention is drawn in a report
MOST_WEIGHTS = 2_000_000  # weights of one part of a model to draw, about 5 MB on a page


def attention_json(explanation: Explanation, longest: int | None = LONGEST) -> JsonObject | None:
    """What `page/draw/attention.js` draws, or None for a model without attention.

    A text is cut after `longest` tokens. If there are still too many weights, some layers are left out.
    """
    if not explanation.attention:
        return None
    used = {name for one in explanation.attention for name in (one.queries, one.keys)}
    return {
        "kind": explanation.kind,
        "sequences": {name: _cut(one, longest) for name, one in explanation.sequences.items() if name in used},
        "attention": [_attention(one, explanation.sequences, longest) for one in explanation.attention],
    }


def shown_length(sequence: TokenSequence, longest: int | None) -> int:
    """How many tokens of a sequence are drawn; a picture needs all of its patches."""
    length = len(sequence.tokens)
    return length if sequence.image or longest is None else min(length, longest)


def _cut(sequence: TokenSequence, longest: int | None) -> JsonObject:
    length = shown_length(sequence, longest)
    segments = None if sequence.segments is None else sequence.segments[:length]
    return sequence_json(TokenSequence(sequence.tokens[:length], segments, sequence.image))


def _attention(one: AttentionMap, sequences: dict[str, TokenSequence], longest: int | None) -> JsonObject:
    """One part of a model: its layers, and a note on what is left out."""
    both = [sequences[one.queries], sequences[one.keys]]
    rows, columns = (shown_length(sequence, longest) for sequence in both)
    layers = [np.nan_to_num(layer.weights[:, :rows, :columns]) for layer in one.layers]
    count = min(len(layers), max(1, MOST_WEIGHTS // max(1, layers[0].size)))
    numbers = sorted({round(number) for number in np.linspace(len(layers), 1, count)})
    notes = []
    if any(shown_length(sequence, longest) < len(sequence.tokens) for sequence in both):
        notes.append(f"Only the first {longest} tokens are shown.")
    if len(numbers) < len(layers):
        notes.append(f"To keep this page small, {len(numbers)} of {len(layers)} layers are shown.")
    return {
        "name": one.name,
        "about": one.about,
        "note": " ".join(notes),
        "queries": one.queries,
        "keys": one.keys,
        "layers": [{"number": number, "weights": thousandths(layers[number - 1])} for number in numbers],
    }


def thousandths(weights: Array) -> JsonObject:
    """A matrix as pages read it: `data` in units of 1 / `scale`."""
    return {"shape": list(weights.shape), "scale": 1000, "data": (1000 * weights).round().astype(int).ravel().tolist()}
