"""What the front process of the service and its workers say to each other, over a pipe."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from heedful.settings import JsonObject


class Load(NamedTuple):
    """Load a model directory under a name that no other model has."""

    key: str
    folder: str


class Unload(NamedTuple):
    """Forget a model."""

    key: str


class Work(NamedTuple):
    """One input for a verb of a model; or a prompt to `complete`, a text to `tokenize`."""

    id: int
    key: str
    verb: str
    given: Any
    options: JsonObject
    caller: int  # whose turn it is


class Cancel(NamedTuple):
    """Nobody waits for this any more."""

    id: int


class Loaded(NamedTuple):
    """A model is ready, or why it is not."""

    key: str
    facts: JsonObject
    error: str = ""


class Piece(NamedTuple):
    """A part of an answer that is written bit by bit."""

    id: int
    answer: JsonObject


class Done(NamedTuple):
    """The answers to one input."""

    id: int
    answers: list[JsonObject]
    tokens: int


class Failed(NamedTuple):
    """Why there is no answer."""

    id: int
    kind: Literal["input", "usage", "internal"]
    message: str


class Stats(NamedTuple):
    """Sizes of the batches since the last report."""

    key: str
    sizes: list[int]


ToWorker: TypeAlias = Load | Unload | Work | Cancel
FromWorker: TypeAlias = Loaded | Piece | Done | Failed | Stats
