"""Splits of the corpora made here: what belongs together stays on one side for good, and each side is a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from heedful.runtime.files import write_text


def hash_of(key: str) -> int:
    """A number of 64 bits that depends on the key alone, on every machine and in every run."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def families(parts: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The names of `parts` in groups: two names that have a part in common, straight or through others, are together."""
    parent = {name: name for name in parts}

    def head(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]  # shortens the way for the next one
            name = parent[name]
        return name

    first: dict[str, str] = {}
    for name in sorted(parts):
        for part in parts[name]:
            one, other = sorted((head(name), head(first.setdefault(part, name))))
            parent[other] = one
    groups: dict[str, list[str]] = {}
    for name in sorted(parts):
        groups.setdefault(head(name), []).append(name)
    return list(groups.values())


def write_splits(folder: Path, name: str, suffix: str, texts: Mapping[str, str]) -> dict[str, Path]:
    """Write the text of each split as `folder/name.split.suffix`; returns split → path."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {split: folder / f"{name}.{split}.{suffix}" for split in texts}
    for split, path in paths.items():
        write_text(path, texts[split])
    return paths
