"""A Hugging Face config.json, with every value checked as it is read; values heedful has no counterpart for are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from heedful.errors import HeedfulError, did_you_mean
from heedful.nn.feedforward import Activation
from heedful.settings import Json

T = TypeVar("T")

# Their names of activations → ours. Export writes the first name of each.
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}


class ForeignConfig:
    """The values of a config.json, and the path of the file for error messages."""

    def __init__(self, values: Mapping[str, Json], origin: str) -> None:
        self.values = values
        self.origin = origin

    def value(self, name: str, default: T | None, kinds: tuple[type[T], ...], what: str) -> T:
        """A value of one of these types; the default where it is absent or null."""
        given = self.values.get(name)
        value = default if given is None else given
        if value is None:
            raise HeedfulError(f"{self.origin} has no value for {name}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise HeedfulError(f"{self.origin} has {name} = {value!r}, which is not {what}")
        return value

    def integer(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = int(self.value(name, default, (int,), "a whole number"))
        if not least <= value < 2**31:
            raise HeedfulError(f"{self.origin} has {name} = {value}, which must be at least {least} and below 2^31")
        return value

    def number(self, name: str, default: float) -> float:
        """A real number."""
        value = self.value(name, default, (int, float), "a number")
        if not abs(value) < 1e30:  # also false for NaN
            raise HeedfulError(f"{self.origin} has {name} = {value}, which no model can use")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        return bool(self.value(name, default, (bool,), "true or false"))

    def word(self, name: str, default: str) -> str:
        """A string."""
        return str(self.value(name, default, (str,), "a string"))

    def activation(self, name: str, default: str) -> Activation:
        """Our name of an activation."""
        theirs = self.word(name, default)
        if theirs not in ACTIVATIONS:
            raise HeedfulError(
                f"{self.origin} has {name} = '{theirs}', which heedful does not have{did_you_mean(theirs, ACTIVATIONS)}"
            )
        return ACTIVATIONS[theirs]

    def require(self, **expected: Json) -> None:
        """Raise an error that lists every value other than the one heedful implements."""
        wrong = [
            f"{name} = {self.values[name]!r} (only {value!r})"
            for name, value in expected.items()
            if self.values.get(name) is not None and self.values[name] != value
        ]
        if wrong:
            raise HeedfulError(f"{self.origin} has settings that heedful cannot express: {', '.join(wrong)}")

    def labels(self) -> list[str]:
        """The names of the classes, by index."""
        named = self.values.get("id2label")
        if named is None:
            return [f"LABEL_{number}" for number in range(self.integer("num_labels", 2))]
        if not isinstance(named, Mapping) or set(named) != {str(number) for number in range(len(named))}:
            raise HeedfulError(f"{self.origin} has an id2label that does not name the classes 0, 1, 2, …")
        names = [named[str(number)] for number in range(len(named))]
        if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
            raise HeedfulError(f"{self.origin} has an id2label with names that are not text: {str(names)[:80]}")
        return [str(name) for name in names]

    def architecture(self, usual: str) -> str:
        """The name of the model's class in transformers."""
        named = self.values.get("architectures") or [usual]
        if not isinstance(named, Sequence) or isinstance(named, str) or not all(isinstance(name, str) for name in named):
            raise HeedfulError(f"{self.origin} has architectures = {named!r}, which is not a list of names")
        return str(named[0])


def their_activation(ours: str) -> str:
    """Their name for one of our activations."""
    return next(name for name, known in ACTIVATIONS.items() if known == ours)
