"""Settings as data: each field has its type, its range and its meaning beside it, and every check follows from them.

A class of settings is a frozen dataclass. `Annotated[int, Interval(ge=1)]` gives a range, `Literal["a", "b"]` a choice,
`int | None` something that may be left open, `list[str]` several names; `setting(default, about)` says what the field means.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from annotated_types import Interval

from heedful.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"  # from a file, unchecked
JsonObject: TypeAlias = dict[str, Any]  # written as JSON, or read from it by code that knows what is in it
Values: TypeAlias = dict[str, Any]  # settings by name, each already checked against its field
Hint: TypeAlias = Any  # an annotation such as `Annotated[int, Interval(ge=1)]`; Python has no type for these

T = TypeVar("T")
Settings = TypeVar("Settings", bound="DataclassInstance")

MANY = 10**9
Count = Annotated[int, Interval(ge=1, le=MANY)]
CountOrNone = Annotated[int, Interval(ge=0, le=MANY)]  # 0 switches something off
Share = Annotated[float, Interval(ge=0, lt=1)]
Layers = Annotated[int, Interval(ge=1, le=1000)]
Width = Annotated[int, Interval(ge=1, le=2**20)]  # of vectors, and how many heads they are split into
Positions = Annotated[int, Interval(ge=1, le=10**7)]
Vocabulary = Annotated[int, Interval(ge=1, le=2**31)]
Epsilon = Annotated[float, Interval(ge=0, le=1)]

WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list of names"}
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def setting(default: T, about: str) -> T:
    """A field of a dataclass of settings: its default, and what it means."""
    return dataclasses.field(default=default, metadata={"about": about})


def hints(settings: Callable[..., object]) -> dict[str, Hint]:
    """Field → its type with range and choices."""
    return typing.get_type_hints(settings, include_extras=True)


def from_json(name: str, hint: Hint, value: Json) -> Any:
    """A value from TOML or JSON, checked against a field's type and range; "none" stands for None, which TOML lacks."""
    kind, optional, _, _ = parts_of(hint)
    if optional and (value is None or value == "none"):
        return None
    if kind is list:
        if not isinstance(value, Sequence) or not all(isinstance(entry, str) for entry in value):
            raise UsageError(f"{name} must be {WORDS[list]}, not {_short(repr(value))}")
        return list(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1e300:
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{name} must be {WORDS[kind]}, not {_short(repr(value))}")
    return _in_range(name, hint, value)


def check_fields(settings: DataclassInstance) -> None:
    """Check every field of an instance against its type and range; for the `__post_init__` of a class of settings."""
    for name, hint in hints(type(settings)).items():
        from_json(name, hint, getattr(settings, name))


def build(settings: type[Settings], given: Mapping[str, Json]) -> Settings:
    """An instance of a class of settings from JSON; the error for unknown or missing settings lists them."""
    known = hints(settings)
    for name in given:
        if name not in known:
            raise UsageError(f"there is no setting '{_short(name)}'")
    needed = [one.name for one in dataclasses.fields(settings) if one.default is dataclasses.MISSING]
    for name in needed:
        if name not in given:
            raise UsageError(f"it does not say {name}")
    return settings(**{name: from_json(name, known[name], value) for name, value in given.items()})


def check_arguments(call: Callable[..., object], given: Mapping[str, Json]) -> Values:
    """Keyword arguments from JSON, checked against the types and ranges of a function's parameters."""
    known = hints(call)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"there is no setting '{unknown[0]}'")
    return {name: from_json(name, known[name], value) for name, value in given.items()}


def from_text(name: str, hint: Hint, text: str) -> Any:
    """A value from the command line."""
    kind, optional, _, _ = parts_of(hint)
    if optional and text.lower() in ("", "none"):
        return None
    try:
        value = TRUTH[text.lower()] if kind is bool else int(text.replace("_", "")) if kind is int else kind(text)
    except (KeyError, ValueError) as error:
        raise UsageError(f"{name} must be {WORDS[kind]}, not '{_short(text)}'") from error
    if kind is str and not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{name} is not valid UTF-8; rename the file or put a link with a plain name to it")
    return _in_range(name, hint, value)


def _in_range(name: str, hint: Hint, value: Any) -> Any:
    _, _, interval, choices = parts_of(hint)
    if choices and value not in choices:
        raise UsageError(
            f"{name} must be one of {', '.join(str(choice) for choice in choices if choice)}, not '{_short(str(value))}'"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, not {value}")
    if interval is None:
        return value
    too_low = interval.ge is not None and value < interval.ge
    if interval.lt is not None and (too_low or value >= interval.lt):
        raise UsageError(f"{name} must be at least {interval.ge} and below {interval.lt}, not {value}")
    if too_low:
        raise UsageError(f"{name} must be at least {interval.ge}, not {value}")
    if interval.le is not None and value > interval.le:
        raise UsageError(f"{name} must be at most {interval.le:,}, not {_short(str(value))}")
    return value


class FieldType(NamedTuple):
    """The parts of an annotation."""

    kind: type
    optional: bool  # it may be None
    interval: Interval | None
    choices: tuple[str | int, ...]  # empty: any value


def parts_of(hint: Hint) -> FieldType:
    """The parts of a field's type."""
    interval = None
    if typing.get_origin(hint) is Annotated:
        interval = next((part for part in hint.__metadata__ if isinstance(part, Interval)), None)
        hint = hint.__origin__
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kind, _, inner, choices = parts_of(next(part for part in typing.get_args(hint) if part is not type(None)))
        return FieldType(kind, True, interval or inner, choices)
    if typing.get_origin(hint) in (list, Sequence):
        return FieldType(list, False, None, ())
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        return FieldType(type(choices[0]), False, interval, choices)
    return FieldType(hint, False, interval, ())


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
