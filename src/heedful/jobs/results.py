"""The results of every verb: typed objects with one conversion to JSON and one to text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from heedful.settings import JsonObject


@dataclass(frozen=True)
class Result:
    """The result for one input; the input itself is its first field."""

    def as_json(self) -> JsonObject:
        """The object that `--json` writes and the service answers."""
        found: JsonObject = _plain(self)
        return found

    def as_text(self) -> str:
        """The result as text, without a final line break."""
        raise NotImplementedError


def _plain(value: object) -> Any:
    """A value as JSON allows it."""
    if isinstance(value, Result):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def on_one_line(text: str) -> str:
    """A text without line breaks, so that inputs and outputs stay aligned."""
    return text.replace("\n", " ")


class ScoredText(NamedTuple):
    """One translation: its log-probability, and the score it was ranked by."""

    text: str
    score: float
    log_probability: float


@dataclass(frozen=True)
class Translation(Result):
    """Translations of a text, best first; an empty text has none."""

    source: str
    translations: Sequence[ScoredText]

    def as_text(self) -> str:
        return "\n".join(on_one_line(one.text) for one in self.translations)


@dataclass(frozen=True)
class Summary(Result):
    """The summary of a document."""

    document: str
    summary: str

    def as_text(self) -> str:
        return on_one_line(self.summary)


@dataclass(frozen=True)
class Continuation(Result):
    """What follows a prompt."""

    prompt: str
    text: str

    def as_text(self) -> str:
        return self.prompt + self.text


class Guess(NamedTuple):
    """A token that could replace [MASK]."""

    token: str
    probability: float


@dataclass(frozen=True)
class Filling(Result):
    """The guesses for every [MASK] of a text, most probable first."""

    text: str
    masks: Sequence[Sequence[Guess]]

    def as_text(self) -> str:
        return "\n".join("  ".join(f"{guess.token.strip()} {guess.probability:.1%}" for guess in place) for place in self.masks)


class Label(NamedTuple):
    """A class and its probability."""

    label: str
    probability: float


@dataclass(frozen=True)
class Classification(Result):
    """The classes of a text or an image, most probable first."""

    input: str
    labels: Sequence[Label]

    def as_text(self) -> str:
        return "  ".join(f"{one.label} {one.probability:.1%}" for one in self.labels)


class TaggedWord(NamedTuple):
    """A word and its tag."""

    word: str
    tag: str


@dataclass(frozen=True)
class Tagging(Result):
    """The words of a text with their tags; as text, CoNLL columns and a blank line."""

    text: str
    words: Sequence[TaggedWord]

    def as_text(self) -> str:
        return "".join(f"{one.word}\t{one.tag}\n" for one in self.words)


class Span(NamedTuple):
    """A part of a passage, and its probability among all parts that could be an answer."""

    text: str
    probability: float


@dataclass(frozen=True)
class Answer(Result):
    """The span of a passage that answers a question, and its probability."""

    question: str
    answer: str
    probability: float

    def as_text(self) -> str:
        return on_one_line(self.answer)


@dataclass(frozen=True)
class Embedding(Result):
    """A text as a vector."""

    text: str
    vector: Sequence[float]

    def as_text(self) -> str:
        return " ".join(f"{value:.8g}" for value in self.vector)
