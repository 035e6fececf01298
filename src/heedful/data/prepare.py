"""A folder of prepared data: filled once from the user's files, and reused until something changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypedDict

from heedful.errors import HeedfulError
from heedful.runtime.files import os_error_sentence, sync
from heedful.settings import Json

VERSION = 2  # of the prepared files; data prepared by another version is prepared again


class Reporter(Protocol):
    """Receives progress messages."""

    def say(self, text: str) -> None: ...

    def track(self, label: str, total: int | None) -> Callable[[int], None]: ...


class Facts(TypedDict, total=False):
    """Facts found while preparing the data."""

    summary: str
    labels: list[str]  # the classes
    roles: dict[str, str]  # special tokens of the tokenizer, or of the source's
    target_roles: dict[str, str]
    pairs: int
    dropped: dict[str, int]  # reason → examples


class Fingerprint(TypedDict):
    """Shows whether a file has changed."""

    size: int
    time: int
    hash: str


class Manifest(Facts):
    """The `manifest.json` of a prepared folder."""

    settings: dict[str, Json]
    inputs: dict[str, Fingerprint]


def prepare_once(
    settings: Mapping[str, Json], paths: Sequence[Path], folder: Path, reporter: Reporter, make: Callable[[Path], Facts]
) -> None:
    """Call `make` to fill `folder` for these settings and input files, unless that has been done already.

    `make` fills a temporary folder and returns facts for the manifest, among them `summary`, a description of the data.
    """
    settings = {"version": VERSION, **settings}
    old = read_manifest(folder) if (folder / "manifest.json").exists() else None
    known = old["inputs"] if old is not None else {}
    inputs = {str(path): _fingerprint(path, known.get(str(path))) for path in paths}
    if old is not None and old["settings"] == settings:
        changed = [path for path, entry in inputs.items() if path in known and entry["hash"] != known[path]["hash"]]
        if changed:
            raise HeedfulError(f"{', '.join(changed)} changed since this run began; give a new --run to train on the new data")
        reporter.say(f"data: {old['summary']}, as prepared before")
        return
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        facts = make(temporary)
        manifest: Manifest = {"settings": settings, "inputs": inputs, **facts}
        (temporary / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for path in [*temporary.iterdir(), temporary]:
            sync(path)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(folder.parent)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared folder."""
    manifest: Manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def _fingerprint(path: Path, known: Fingerprint | None) -> Fingerprint:
    """Size, modification time and content hash of a file; if size and time are unchanged, the known hash is reused."""
    try:
        stat = path.stat()
        if path.is_fifo():
            raise HeedfulError(f"{path} is a pipe, but training text is read more than once; put it in a file")
        if known and path.is_file() and (known["size"], known["time"]) == (stat.st_size, stat.st_mtime_ns):
            return known
        digest = hashlib.blake2b(digest_size=16)
        if path.is_dir():  # of images: hash names, sizes and times of its files instead of their content
            for file_path in sorted(found for found in path.rglob("*") if found.is_file()):
                inner = file_path.stat()
                digest.update(os.fsencode(file_path.relative_to(path)) + f" {inner.st_size} {inner.st_mtime_ns}\n".encode())
        else:
            with open(path, "rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedfulError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise HeedfulError(f"{path} is a directory; a text file is needed") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    return {"size": stat.st_size, "time": stat.st_mtime_ns, "hash": digest.hexdigest()}
