"""Files that are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`; then sync it and rename it into place."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """A whole UTF-8 text file."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def sync(path: Path) -> None:
    """Make a file, or the names inside a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_is_full(error: BaseException) -> bool:
    """Whether an error means that no more can be written; safetensors puts the reason into its text."""
    if isinstance(error, OSError):
        return error.errno in FULL
    return any(f"os error {number}" in str(error) for number in FULL)
