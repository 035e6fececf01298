"""Converts a model for CTranslate2 once, and keeps the result beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from heedful.interop import ctranslate2
from heedful.pipelines.pipeline import AnyPipeline
from heedful.runtime.files import disk_is_full

LAYOUT = "2"  # version of the conversion; a model converted by another version is converted again
KEPT = ".ctranslate2"  # folder inside a model directory


def converted(pipeline: AnyPipeline, folder: Path, say: Callable[[str], None]) -> Path:
    """The folder of the converted model: beside the original, or where that cannot be written, in the user's cache."""
    key = content_key(folder)
    places = (folder / KEPT, user_cache() / "ctranslate2")
    for place in places:
        if (place / key / "model.bin").is_file():
            return place / key
    refused: OSError | None = None
    for place in places:
        try:
            start = time.monotonic()
            found = convert(pipeline, place, key)
        except OSError as error:
            if disk_is_full(error):
                raise
            refused = error
            continue
        if place == places[0]:
            remove_others(place, key)
        say(f"converted the model for CTranslate2 in {time.monotonic() - start:.1f} s, once; it is kept in {found}")
        return found
    assert refused is not None
    raise refused


def convert(pipeline: AnyPipeline, place: Path, key: str) -> Path:
    """Write the converted model into a folder of its own, atomically; several processes may try at once."""
    place.mkdir(parents=True, exist_ok=True)
    temporary = place / f".{key}.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        ctranslate2.write(pipeline, temporary)
        try:
            temporary.rename(place / key)
        except OSError:
            if not (place / key / "model.bin").is_file():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return place / key


def remove_others(place: Path, key: str) -> None:
    """Remove models converted from earlier contents of the directory."""
    for old in place.iterdir():
        if old.name != key and not old.name.startswith("."):
            shutil.rmtree(old, ignore_errors=True)


def content_key(folder: Path) -> str:
    """A key for the contents of a model directory and the version of the conversion."""
    digest = hashlib.blake2b(f"{LAYOUT} {version('ctranslate2')}".encode(), digest_size=12)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "target_tokenizer.json"):
        path = folder / name
        digest.update(f"{name} {path.is_file()}".encode())
        if path.is_file():
            with open(path, "rb") as file:
                while part := file.read(2**22):
                    digest.update(part)
    return digest.hexdigest()


def user_cache() -> Path:
    """The user's cache directory."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "heedful"
