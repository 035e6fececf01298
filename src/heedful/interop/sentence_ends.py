"""Where sentences end, as a small ONNX graph of rules: the form in which Argos Translate looks for it in a package.

The rules are those of `text.sentences`: a sentence ends at . ! ? … before a space and what may begin another, and not after an
abbreviation, a single letter or a number. Without this graph, Argos Translate downloads a model for the source language.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from heedful.interop.onnx_graph import Graph

FULL_STOPS, OTHERS, WIDE = ".", "!?…؟।", "。！？"
CLOSING = "\"'”“’»)]」』）"
BEFORE = " ("  # characters before an abbreviation, if it is not at the beginning of the text
ABBREVIATIONS = "Mr Mrs Ms Dr St Jr Sr Prof Hr Fr Inc Ltd No Nr vs ca etc bzw usw vol al Z.B z.B d.h e.g i.e".split()
PLACE = 13  # bits of an id
LONGEST = max(map(len, ABBREVIATIONS))


def write_sentence_ends(path: Path) -> None:
    """Write the graph with its alphabet: `units` (B, L) and `features`, which it ignores, → scores of labels (B, L, 5)."""
    import onnx

    letters = [c for c in map(chr, range(sys.maxunicode + 1)) if c.islower()]
    digits = [c for c in map(chr, range(0x10000)) if c.isdigit()]
    signs = [*FULL_STOPS, *OTHERS, *WIDE, *CLOSING, *" (", *map(chr, range(ord("A"), ord("Z") + 1))]
    units = list(dict.fromkeys(["<PAD>", "<UNK>", *signs, *digits, *letters]))
    number = {unit: index for index, unit in enumerate(units)}
    graph = Graph({})
    ids = graph.input("units", "INT64", ["B", "L"])
    graph.input("features", "FLOAT", ["B", "L", 1])

    def shifted(by: int) -> str:
        """The id `by` places further on; padding beyond the ends."""
        pads = graph.constant([0, max(0, -by), 0, max(0, by)], np.int64)
        padded = graph.op("Pad", ids, pads, graph.constant(0, np.int64))
        if by <= 0:
            return graph.op("Slice", padded, *(graph.constant([at], np.int64) for at in (0, by or sys.maxsize, 1)))
        return graph.op("Slice", padded, *(graph.constant([at], np.int64) for at in (by, sys.maxsize, 1)))

    def among(value: str, characters: str | list[str]) -> str:
        """Whether an id is one of these characters."""
        table = np.zeros(len(units), dtype=bool)
        table[[number[c] for c in characters]] = True
        return graph.op("Gather", graph.constant(table, bool), value)

    def any_of(*values: str) -> str:
        found, *rest = values
        for value in rest:
            found = graph.op("Or", found, value)
        return found

    def all_of(*values: str) -> str:
        found, *rest = values
        for value in rest:
            found = graph.op("And", found, value)
        return found

    def but(value: str) -> str:
        return graph.op("Not", value)

    before, two_before = shifted(-1), shifted(-2)
    after, next_begins = shifted(1), but(among(shifted(2), [*letters, *digits, " ", *FULL_STOPS]))
    closing = among(ids, CLOSING)
    stop = among(ids, FULL_STOPS)
    # The characters before a full stop as one number; an abbreviation with what precedes it is such a number too.
    packed, known = graph.op("Mul", before, graph.constant(1, np.int64)), []
    short = []
    for length in range(2, LONGEST + 2):
        following = graph.op("Mul", shifted(-length), graph.constant(1 << PLACE * (length - 1), np.int64))
        packed = graph.op("Add", packed, following)
        known = [
            sum(number[c] << PLACE * place for place, c in enumerate(reversed([first, *word])))
            for word in ABBREVIATIONS
            if len(word) == length - 1
            for first in ("<PAD>", *BEFORE)
        ]
        if known:
            column = graph.op("Unsqueeze", packed, graph.constant([-1], np.int64))
            equal = graph.op("Cast", graph.op("Equal", column, graph.constant(known, np.int64)), to=onnx.TensorProto.FLOAT)
            short.append(graph.op("Cast", graph.op("ReduceMax", equal, axes=[-1], keepdims=0), to=onnx.TensorProto.BOOL))
    no_word = [*signs[: signs.index("A")], *digits, "<PAD>"]
    one_letter = all_of(but(among(before, no_word)), among(two_before, ["<PAD>", *BEFORE]))
    ends = any_of(among(ids, OTHERS), all_of(stop, but(any_of(*short, one_letter, among(before, digits)))))
    closed = all_of(closing, among(before, [*FULL_STOPS, *OTHERS]))
    narrow = all_of(any_of(ends, closed), among(after, " "), next_begins)
    wide = all_of(any_of(among(ids, WIDE), all_of(closing, among(before, WIDE))), but(among(after, CLOSING)))
    found = graph.op("Cast", any_of(narrow, wide), to=onnx.TensorProto.FLOAT)
    column = graph.op("Unsqueeze", found, graph.constant([-1], np.int64))
    scores = graph.op("Add", graph.op("Mul", column, graph.constant([0, 0, 1, 0, 0])), graph.constant([0.5, 0, 0, 0, 0]))
    graph.output("labels", scores, ["B", "L", 5])
    graph.save(path)
    model = onnx.load(str(path))
    alphabet = {"lang": "", "lower": False, "_unit2id": number, "_id2unit": units}
    config = {"feat_funcs": ["capitalized"]}
    onnx.helper.set_model_props(model, {"config": json.dumps(config), "vocab": json.dumps(alphabet), "lang_code": "mul"})
    onnx.save(model, str(path))
