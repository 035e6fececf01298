"""Lines of text files, plain or gzip, and the JSON in them; problems with a file become one-sentence errors."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from heedful.data.drops import Drops
from heedful.data.encodings import (
    guess_encoding,
    is_utf8,
    other_encoding,
    refuse_markup,
    refuse_non_text,
    refuse_other_encoding,
)
from heedful.errors import HeedfulError
from heedful.runtime.files import os_error_sentence
from heedful.settings import Json

HEAD = 1 << 16  # bytes read to recognise the format of a file
LONGEST_LINE = 1 << 28  # bytes; a file without line ends would fill memory


@contextmanager
def open_text(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes, decompressed if it is gzip."""
    try:
        with open(path, "rb", buffering=0) as file:
            raw: io.BufferedReader = io.BufferedReader(file, HEAD)
            zipped = raw.peek(2)[:2] == b"\x1f\x8b"  # peek, because a pipe cannot seek back
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw), HEAD) if zipped else raw
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedfulError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise HeedfulError(f"{path} is a directory; a text file is needed") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise HeedfulError(f"{path} is a damaged gzip file: {error}") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error


def raw_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of an open file, with their line ends."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise HeedfulError(f"{name} has a line of more than {LONGEST_LINE >> 20} MB; is it text, with line ends?")
        yield line


def count_lines(path: Path) -> int:
    """The lines of a text file, plain or gzip."""
    with open_text(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def read_lines(path: Path, markup: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; Windows line ends and a byte-order mark are removed.

    Files that are not plain text raise an error that says what they are: other encodings, documents, archives and, unless
    `markup` is True, XML and the like.
    """
    with open_text(path) as file:
        head = file.peek(HEAD)[:HEAD]
        if not head:
            raise HeedfulError(f"{path} is empty")
        refuse_non_text(head, str(path))
        refuse_other_encoding(head, str(path))
        if not markup:
            refuse_markup(head, str(path))
        for number, line in enumerate(raw_lines(file, str(path)), 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                rest = [line for line in file.read(HEAD).split(b"\n") if not line.isascii()]
                broken = [line, *(other for other in rest if not is_utf8(other))]
                if len(broken) > len(rest) // 2:
                    raise HeedfulError(
                        f"{path} is UTF-8 up to line {number - 1:,} only. {other_encoding(str(path), guess_encoding(line))}"
                    ) from error
                raise HeedfulError(
                    f"{path} line {number} is not valid UTF-8 (byte {error.start + 1} is 0x{error.object[error.start]:02x}); "
                    "fix or remove that line"
                ) from error


def read_json_rows(path: Path, drops: Drops) -> Iterator[tuple[str, Json]]:
    """(where, value) of each line of a JSONL file."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        if not line.strip():
            drops.add("empty", where)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise HeedfulError(f"{path} line {number} is not JSON: {error}") from error
        yield where, row
