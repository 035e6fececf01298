"""Train, validation and test splits of the built-in corpora: related examples always share a split; one file per split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from heedful.runtime.files import write_text

SPLIT_NAMES = ("train", "valid", "test")


def hash_of(key: str) -> int:
    """A 64-bit hash that depends on the key alone, on every machine and in every run."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def pick_split(key: str, percentages: Mapping[str, int]) -> str:
    """The split that a key always belongs to, by the bucket (0 … 99) its hash falls into.

    `percentages` maps each split to its percentage of all keys; they must sum to 100, and their order assigns the buckets.
    """
    bucket, below = hash_of(key) % 100, 0
    for split, percentage in percentages.items():
        below += percentage
        if bucket < below:
            return split
    raise ValueError(f"the percentages {dict(percentages)} do not sum to 100")


def connected_groups(parts: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The names of `parts` in groups: names that share a part, directly or through other names, are in one group."""
    parent = {name: name for name in parts}

    def head(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]  # path compression
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
