"""A directory that only one process writes into at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from heedful.errors import HeedfulError, UsageError


@contextmanager
def locked_directory(folder: Path) -> Iterator[None]:
    """Make a directory and hold its lock; a directory that is still empty afterwards is removed again.

    The lock is an advisory one of the operating system, released however the process ends. Windows has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise HeedfulError("training needs file locks that Windows does not have; use WSL, Linux or macOS") from error

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{folder} is a file, not a directory for a run") from error
    path = folder / ".lock"
    while True:
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise HeedfulError(f"another process is training in {folder}") from error
            try:
                if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                    continue  # the process before us has just removed it
            except FileNotFoundError:
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
                with suppress(OSError):
                    folder.rmdir()  # only if it is empty
            return
