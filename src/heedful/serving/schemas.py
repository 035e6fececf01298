"""Pydantic models made from the classes that define verbs, so that HTTP has the options and answers of the command line."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, create_model

from heedful.jobs.options import Options
from heedful.jobs.registry import Verb
from heedful.settings import JsonObject, hints, parts_of

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
Text = typing.Annotated[str, Field(max_length=1_000_000)]


class Problem(BaseModel):
    """Why a request could not be answered."""

    error: str


class InputProblem(BaseModel):
    """Why one of several inputs could not be used; its input stands beside it, as in the answers."""

    model_config = ConfigDict(extra="allow")

    error: str


class Question(BaseModel):
    """A question and the text in which its answer is."""

    model_config = STRICT

    question: Text
    passage: Text


def option_fields(options: type[Options]) -> JsonObject:
    """The fields of a class of options with their ranges and meanings."""
    types = hints(options)
    found: JsonObject = {}
    for one in dataclasses.fields(options):
        hint = types[one.name]
        kind, optional, interval, _ = parts_of(hint)
        limits: JsonObject = {}
        if isinstance(interval, Interval):
            limits = {name: getattr(interval, name) for name in ("ge", "gt", "le", "lt") if getattr(interval, name) is not None}
        annotation: Any = kind | None if optional else kind
        # A fraction may be written as a whole number.
        strict = kind is not float
        found[one.name] = (annotation, Field(one.default, description=one.metadata["about"], strict=strict, **limits))
    return found


def request_model(verb: Verb) -> type[BaseModel]:
    """What `/api/<verb>` takes."""
    one: Any = Question if verb.name == "answer" else Text
    fields: JsonObject = {
        "model": (str | None, Field(None, description="Which model; without it, the first that can.")),
        "inputs": (one | list[one], Field(description=f"{verb.inputs}, one or several.")),
        **option_fields(verb.options),
    }
    return create_model(f"{verb.name.capitalize()}Request", __config__=STRICT, **fields)


def answer_model(verb: Verb) -> type[BaseModel]:
    """What `/api/<verb>` answers."""
    result = _plain(verb.result)
    return create_model(
        f"{verb.name.capitalize()}Answer",
        model=(str, Field(description="The model that answered.")),
        results=(list[result | InputProblem], Field(description="As `--json` of the command line writes them, in order.")),  # type: ignore[valid-type]
    )


def _plain(kind: Any) -> Any:
    """A result class in its JSON form: see `Result.as_json`."""
    if dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, tuple)):
        name = typing.cast(type, kind).__name__
        fields: JsonObject = {field: (_plain(hint), ...) for field, hint in typing.get_type_hints(kind).items()}
        return create_model(name, **fields)
    if typing.get_origin(kind) is Sequence:
        return list[_plain(typing.get_args(kind)[0])]  # type: ignore[misc]
    return kind
