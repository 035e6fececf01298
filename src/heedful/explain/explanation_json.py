"""An explanation as JSON, the one form that files, pages and drawings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.explain.explanation import FORMAT, Candidate, Explanation, TokenSequence
from heedful.runtime.files import finite
from heedful.settings import JsonObject

DIGITS = 6  # decimals that are kept


def explanation_json(explanation: Explanation, with_attention: bool = True) -> JsonObject:
    """See `Explanation.as_json`. Attention is most of it; pages hold it in a shorter form."""
    e = explanation
    return {
        "format": FORMAT,
        "job": e.job,
        "verb": e.verb,
        "kind": e.kind,
        "model": e.model,
        "input": e.input,
        "output": e.output,
        "sequences": {name: sequence_json(sequence) for name, sequence in e.sequences.items()},
        "attention": [
            {
                "name": one.name,
                "about": one.about,
                "queries": one.queries,
                "keys": one.keys,
                "layers": [
                    {
                        "number": layer.number,
                        "weights": numbers(layer.weights),
                        "scores": None if layer.scores is None else numbers(layer.scores),
                    }
                    for layer in one.layers
                ],
            }
            for one in (e.attention if with_attention else ())
        ],
        "norms": [{**_rows(one), "values": numbers(one.values)} for one in e.norms],
        "lens": [
            {
                **_rows(one),
                "columns": None if one.columns is None else list(one.columns),
                "layers": [[_candidates(cell) for cell in row] for row in one.layers],
            }
            for one in e.lens
        ],
        "candidates": [{"position": one.position, "chosen": one.chosen, "top": _candidates(one.top)} for one in e.candidates],
        "beam": None
        if e.beam is None
        else {
            "width": e.beam.width,
            "alpha": e.beam.alpha,
            "steps": [[finite(branch._asdict()) for branch in step] for step in e.beam.steps],
        },
    }


def numbers(values: NDArray[np.generic]) -> Any:
    """An array as nested lists of short numbers."""
    rounded = np.round(values.astype(np.float64), DIGITS)
    return rounded.tolist() if np.isfinite(rounded).all() else finite(rounded.tolist())


def sequence_json(sequence: TokenSequence) -> JsonObject:
    """A sequence as JSON holds it."""
    return {
        "tokens": [token._asdict() for token in sequence.tokens],
        "segments": None if sequence.segments is None else list(sequence.segments),
        "image": None if sequence.image is None else vars(sequence.image),
    }


def _rows(one: Any) -> JsonObject:
    return {"stack": one.stack, "sequence": one.sequence, "labels": list(one.labels)}


def _candidates(top: Sequence[Candidate]) -> list[JsonObject]:
    return [{"id": c.id, "text": c.text, "probability": finite(round(c.probability, DIGITS))} for c in map(Candidate._make, top)]
