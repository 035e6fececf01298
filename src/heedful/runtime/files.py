"""Files and directories that are complete or absent, even if writing is interrupted; and file-system errors as sentences."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from heedful.errors import HeedfulError, UsageError
from heedful.settings import Json

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NAME_SHOWN = 80  # characters of a name that is too long to be shown whole


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`; then sync it and rename it into place.

    The file gets the ordinary mode of a new file, whatever `write` uses. An OSError names `path`.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        temporary.touch()
        mode = temporary.stat().st_mode & 0o777  # as the umask says; safetensors makes its files private
        write(temporary)
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        number = error_number(error)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def write_json(path: Path, value: object) -> None:
    """A whole JSON file."""
    write_text(path, json.dumps(finite(value), ensure_ascii=False, indent=1) + "\n")


def refuse_to_overwrite(out: Path, suffix: str = "") -> None:
    """Raise an error unless `out` is new, or an empty directory where one is to be written."""
    if suffix and (out.exists() or out.is_symlink()):
        raise UsageError(f"{out} exists already; name a new file")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already; name a new directory")


def read_json(path: Path) -> Json:
    """The content of a JSON file; an error that names the file if it is not JSON."""
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
        return content
    except RecursionError as error:
        raise HeedfulError(f"{path} is not JSON that can be read: it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise HeedfulError(f"{path} is not JSON: it is not UTF-8 text") from error
    except ValueError as error:
        raise HeedfulError(f"{path} is not JSON: {error}") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error


def finite(value: object) -> object:
    """The value as strict JSON allows it: a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_text(path: Path, text: str) -> None:
    """A whole UTF-8 text file."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def whole_directory(out: Path) -> Iterator[Path]:
    """A temporary directory to fill, which becomes `out` when the block ends well and vanishes when it does not.

    `out` may be an empty directory; then it stays the same one, and its files appear at the end.
    """
    out = Path(os.path.realpath(out))
    inside = out.is_dir()
    temporary = out / ".writing.tmp" if inside else out.with_name(f".{out.name}.tmp")
    made = [parent for parent in (out, *out.parents) if not parent.exists()][1:]
    placed: list[Path] = []
    try:
        if temporary.is_dir():
            shutil.rmtree(temporary)  # of a process that was killed
        temporary.mkdir(parents=True)
        yield temporary
        if inside:
            for entry in sorted(temporary.iterdir()):
                placed.append(entry.rename(out / entry.name))
            temporary.rmdir()
        else:
            temporary.rename(out)
            sync(out.parent)
    except BaseException as error:
        for path in (temporary, *placed):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError) and error.errno and str(error.filename or "").startswith(str(temporary)):
            shown = str(error.filename).replace(str(temporary), str(out), 1)
            raise OSError(error.errno, error.strerror, shown) from error
        raise


def sync(path: Path) -> None:
    """Make a file, or the names inside a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def error_number(error: BaseException) -> int | None:
    """The number of an operating-system error, or None. safetensors puts it into its message; NumPy reports only that it
    wrote less than requested, which means a full disk."""
    if isinstance(error, OSError):
        return errno.ENOSPC if error.errno is None and "requested and" in str(error) else error.errno
    found = re.search(r"\(os error (\d+)\)", str(error)) if isinstance(error, Exception) else None
    return int(found[1]) if found else None


def disk_is_full(error: BaseException) -> bool:
    """Whether an error means that no more can be written."""
    return error_number(error) in FULL


def os_error_sentence(error: OSError) -> str:
    """An error of the operating system as a sentence for a person: what was wrong, with which file, what to do."""
    name = error.filename2 if error.filename2 is not None else error.filename
    known = isinstance(name, str | bytes | os.PathLike)
    path = os.fsdecode(name).encode("utf-8", "replace").decode() if known else ""
    here = path or "a file or directory"
    if error.errno == errno.ENAMETOOLONG:
        return (
            f"the name {path[:NAME_SHOWN]}… of {len(path):,} characters is longer than the file system allows; use a shorter one"
        )
    sentences = {
        errno.ENOSPC: f"the disk is full: {path or 'the output'} was not written; free some space and run the command again",
        errno.EDQUOT: f"your disk quota is used up: {path or 'the output'} was not written; free some space and run it again",
        errno.EFBIG: f"{path or 'the output'} would be larger than the file system or a limit (ulimit -f) allows",
        errno.EACCES: f"you have no permission to use {here}; check its owner and mode with ls -ld",
        errno.EPERM: f"the system does not permit the use of {here}; check its owner and mode with ls -ld",
        errno.EROFS: f"{here} is on a read-only file system; name a place that can be written to",
        errno.ELOOP: f"{here} cannot be followed: its symbolic links lead in a circle",
        errno.EISDIR: f"{here} is a directory, where a file is needed",
        errno.ENOTDIR: f"{here} cannot be reached: a part of its path is a file, not a directory",
        errno.ENOENT: f"there is no {here}",
        errno.EEXIST: f"{here} exists already",
        errno.ENOTEMPTY: f"{here} is a directory with something in it",
        errno.EIO: f"the device failed while {path or 'the input or output'} was read or written (input/output error)",
        errno.EMFILE: "too many files are open at once; raise the limit with ulimit -n",
        errno.ENOMEM: "there is not enough memory",
    }
    if error.errno in sentences:
        return sentences[error.errno]
    reason = error.strerror or str(error) or type(error).__name__
    return f"{path} cannot be used: {reason}" if path else f"the system refused: {reason}"


@contextmanager
def sentences_for_os_errors() -> Iterator[None]:
    """Raise what the operating system refuses inside the block as a HeedfulError."""
    try:
        yield
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
