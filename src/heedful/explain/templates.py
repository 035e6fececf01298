"""The HTML templates of this package. Every value in them is escaped."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from heedful.explain.two_languages import in_two_languages


@cache
def environment() -> Environment:
    """Where templates are loaded from, and how they are rendered."""
    found = Environment(
        loader=PackageLoader("heedful", "explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    found.globals["say"] = in_two_languages
    return found
