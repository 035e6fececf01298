"""JavaScript modules and style sheets of the page inside one HTML file, which then needs no network and no server."""

from __future__ import annotations

import base64
import json
import posixpath
import re
from importlib import resources

from markupsafe import Markup

IMPORT = re.compile(r"""((?:\bfrom|\bimport)\s*\(?\s*)(["'])(\.{1,2}/[^"']+)\2""")
PREFIX = "heedful/"  # of a module's name inside a file


def inlined_modules(*entries: str) -> Markup:
    """An import map of all modules that some need, as `<script type="importmap">`.

    A module in it has the bare name `heedful/PATH`, by which other scripts of the page import it.
    """
    modules: dict[str, str] = {}
    waiting = list(entries)
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        modules[path], needed = renamed_imports(path, page_file(path))
        waiting += needed
    imports = {PREFIX + path: _data_uri(source) for path, source in sorted(modules.items())}
    return Markup(f'<script type="importmap">{json.dumps({"imports": imports})}</script>')


def renamed_imports(path: str, source: str) -> tuple[str, list[str]]:
    """A module with bare names instead of relative ones, and the paths of the modules it imports."""
    found = []

    def rename(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[3]))
        found.append(target)
        return f"{match[1]}{match[2]}{PREFIX}{target}{match[2]}"

    return IMPORT.sub(rename, source), found


def inlined_styles(*paths: str) -> Markup:
    """Style sheets as one text for `<style>`."""
    return Markup("\n".join(page_file(path) for path in paths))


def page_file(path: str) -> str:
    """The text of a file of the page."""
    return resources.files("heedful.page").joinpath(path).read_text(encoding="utf-8")


def _data_uri(source: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(source.encode()).decode()
