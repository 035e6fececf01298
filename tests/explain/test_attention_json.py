"""The attention that pages draw: whole numbers, truncated if it is long, with a note that says so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from heedful.explain.attention_json import LONGEST, attention_json
from heedful.explain.explanation import AttentionLayer, AttentionMap, Explanation, Picture, Token, TokenSequence


def explanation(weights: list[Any], sequences: dict[str, TokenSequence], queries: str, keys: str) -> Explanation:
    layers = [AttentionLayer(number, one, None) for number, one in enumerate(weights, 1)]
    attention = [AttentionMap("cross", "About.", queries, keys, layers)]
    return Explanation("translation", "translate", "seq2seq", "model", "in", "out", sequences, attention)


def sequence(length: int, image: Picture | None = None) -> TokenSequence:
    return TokenSequence([Token(number, str(number)) for number in range(length)], image=image)


def test_drawable_attention_has_whole_numbers_and_says_what_is_left_out() -> None:
    weights = np.full((2, LONGEST + 2, 3), 1 / 3, dtype=np.float32)
    found = explanation([weights, weights * np.nan], {"target": sequence(LONGEST + 2), "source": sequence(3)}, "target", "source")
    drawn = attention_json(found)
    assert drawn is not None
    assert [len(drawn["sequences"][name]["tokens"]) for name in ("target", "source")] == [LONGEST, 3]
    (one,) = drawn["attention"]
    assert [layer["number"] for layer in one["layers"]] == [1, 2]
    first, second = (layer["weights"] for layer in one["layers"])
    assert first["shape"] == second["shape"] == [2, LONGEST, 3]
    assert set(first["data"]) == {333}
    assert set(second["data"]) == {0}  # of a model that has diverged
    assert one["note"] == f"Only the first {LONGEST} tokens are shown."
    assert "NaN" not in json.dumps(drawn)
    whole = attention_json(found, longest=None)
    assert whole is not None
    assert whole["attention"][0]["layers"][0]["weights"]["shape"] == [2, LONGEST + 2, 3]
    assert whole["attention"][0]["note"] == ""


def test_a_large_vision_transformer_keeps_every_patch_and_some_of_its_layers() -> None:
    picture = Picture("data:image/png;base64,", 14, 14)
    weights = np.zeros((12, 197, 197), dtype=np.float32)
    drawn = attention_json(explanation([weights] * 12, {"input": sequence(197, picture)}, "input", "input"))
    assert drawn is not None
    assert len(drawn["sequences"]["input"]["tokens"]) == 197
    assert drawn["sequences"]["input"]["image"] == {"source": "data:image/png;base64,", "rows": 14, "columns": 14}
    (one,) = drawn["attention"]
    assert [layer["number"] for layer in one["layers"]] == [1, 5, 8, 12]
    assert one["note"] == "To keep this page small, 4 of 12 layers are shown."


def test_a_model_without_attention_has_nothing_to_draw() -> None:
    assert attention_json(Explanation("translation", "translate", "recurrent", "model", "in", "out", {})) is None
