"""What a model did with one input: tokens, attention, candidates, residual-stream norms, logit lens and the beam's tree.

Shapes: H heads, Lq queries, Lk keys, N layers, L length. JSON has the same names (`as_json`); the pages draw from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.decoding.beam_tree import Fate
from heedful.nn.trace import Part, Stack
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
Array = NDArray[np.float32]


class Token(NamedTuple):
    """A token of a sequence, or a patch of an image."""

    id: int | None
    text: str
    special: bool = False  # begin, end, [CLS], [SEP], [MASK]
    word: int | None = None  # number of the word it belongs to; special tokens belong to none


@dataclass(frozen=True)
class Picture:
    """The image that a sequence of patches was cut from."""

    source: str  # data URI
    rows: int  # of patches
    columns: int


@dataclass(frozen=True)
class TokenSequence:
    """What a part of the model reads."""

    tokens: Sequence[Token]
    segments: Sequence[int] | None = None  # of a BERT that reads two texts
    image: Picture | None = None

    @property
    def texts(self) -> list[str]:
        """Each token as text."""
        return [token.text for token in self.tokens]


@dataclass(frozen=True)
class AttentionLayer:
    """One layer of an attention."""

    number: int  # from 1
    weights: Array  # (H, Lq, Lk); a row sums to one
    scores: Array | None  # (H, Lq, Lk): q·k/√d_k and position bias, before mask and softmax


@dataclass(frozen=True)
class AttentionMap:
    """How much each query attends to each key, in every layer and head."""

    name: Part
    about: str  # a sentence on what queries and keys are
    queries: str  # names of sequences
    keys: str
    layers: Sequence[AttentionLayer]


@dataclass(frozen=True)
class Norms:
    """The length of every vector of a residual stream."""

    stack: Stack
    sequence: str
    labels: Sequence[str]  # of the rows: the embeddings, then each layer
    values: Array  # (N + 1, L)


class Candidate(NamedTuple):
    """Something that a model may say, and how probable it is."""

    id: int | None  # of a token or a label
    text: str
    probability: float


@dataclass(frozen=True)
class Lens:
    """The logit lens: what the model would already say after each layer, by final norm and output matrix."""

    stack: Stack
    sequence: str
    labels: Sequence[str]  # of the rows, as in `Norms`
    columns: Sequence[str] | None  # None: the tokens of the sequence; otherwise what the model reads its one answer from
    layers: Sequence[Sequence[Sequence[Candidate]]]  # (N + 1, L), best first


@dataclass(frozen=True)
class Prediction:
    """What the model may say at a position, or of the whole input."""

    position: int | None  # of the sequence that it reads: what may follow, or stand there; None: of the whole input
    chosen: int | None  # the id of what was said
    top: Sequence[Candidate]  # best first


class Branch(NamedTuple):
    """A hypothesis of a beam search: the one it extends, by which token, and what became of it."""

    node: int
    parent: int | None
    id: int
    text: str
    log_probability: float
    score: float
    state: Fate


@dataclass(frozen=True)
class Beam:
    """The tree of a beam search: the branches of each step, best first."""

    width: int
    alpha: float
    steps: Sequence[Sequence[Branch]]


@dataclass(frozen=True)
class Explanation:
    """What a model did with one input."""

    job: str
    verb: str
    kind: str  # of model
    model: str  # its name
    input: str
    output: str
    sequences: dict[str, TokenSequence]  # `source` and `target` (what the decoder reads) of encoder–decoders, `input` of others
    attention: Sequence[AttentionMap] = ()
    norms: Sequence[Norms] = ()
    lens: Sequence[Lens] = ()
    candidates: Sequence[Prediction] = ()
    beam: Beam | None = field(default=None)

    def attention_of(self, name: str = "") -> AttentionMap:
        """The attention of that name; without one the first of cross, encoder, decoder and pooling that the model has."""
        from heedful.errors import UsageError, did_you_mean

        found = {one.name: one for one in self.attention}
        if not found:
            raise UsageError("this model has no attention")
        if name and name not in found:
            raise UsageError(f"this model has no attention '{name}'{did_you_mean(name, found)}")
        order: tuple[Part, ...] = ("cross", "encoder", "decoder", "pooling")
        return next(one for key, one in found.items() if key == (name or next(part for part in order if part in found)))

    @property
    def places(self) -> str:
        """How candidates belong to their token: they come after it, stand in its place, or are the tags of a word."""
        return {"fill": "in place of", "tag": "word"}.get(self.verb, "after")

    def place_of(self, prediction: Prediction) -> str:
        """The token that a prediction belongs to; the whole word where a word gets its tag at its first token."""
        if prediction.position is None:
            return ""
        tokens = self.sequences.get("target", self.sequences.get("input", TokenSequence([]))).tokens
        first = tokens[prediction.position]
        if self.verb != "tag" or first.word is None:
            return first.text
        return "".join(token.text.removeprefix("##") for token in tokens if token.word == first.word)

    def as_json(self) -> JsonObject:
        """The object that JSON files and pages hold; a number that is not finite is null."""
        from heedful.explain.explanation_json import explanation_json

        return explanation_json(self)

    def plot(self, what: str = "attention", **options: str | int | None) -> Figure:
        """A matplotlib figure of the `attention`, `scores`, `norms`, `lens`, `candidates` or `beam`; see `explain.plot`."""
        from heedful.explain.plot import plot_explanation

        return plot_explanation(self, what, **options)

    def to_html(self) -> str:
        """A whole page that needs no network."""
        from heedful.explain.page import explanation_page

        return explanation_page(self)

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        from heedful.explain.page import in_notebook

        return in_notebook(self.to_html())

    def __repr__(self) -> str:
        parts = ", ".join(f"{one.name} {len(one.layers)}×{len(one.layers[0].weights)}" for one in self.attention)
        return f"<Explanation of {self.model}: {self.input!r} → {self.output!r}; attention (layers×heads): {parts or 'none'}>"
