"""Where a verb gets its inputs: arguments, a file, or standard input as lines arrive."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from heedful.cli import console

LINES = 256  # maximum number of lines processed together
LINES_OF_FILE = 2048  # the same for a file, which is complete from the start
FEW_BAD_LINES = 2  # lines that are not UTF-8 and only cause a warning; more mean another encoding


def groups_of_lines(text: Sequence[str] | None, input: Path | None, file_names: bool = False) -> Iterator[list[str]]:
    """The input lines in groups: the arguments, the lines of a file, or those of standard input as they arrive.

    Lines that are `file_names` need not be UTF-8.
    """
    from heedful.data.encodings import refuse_markup, refuse_non_text, refuse_other_encoding
    from heedful.data.lines import HEAD, open_text, raw_lines
    from heedful.errors import UsageError

    if text and input:
        raise UsageError("give text or --input, not both")
    with ExitStack() as files:
        if text:
            lines = _decoded(map(os.fsencode, text), "argument", "the arguments", file_names)
        elif input and str(input) != "-":
            file = files.enter_context(open_text(input))
            head = file.peek(HEAD)[:HEAD]
            refuse_non_text(head, str(input))
            if not file_names:
                refuse_other_encoding(head, str(input))
            refuse_markup(head, str(input))
            lines = _decoded(raw_lines(file, str(input)), f"{input} line", str(input), file_names)
        else:
            if sys.stdin.isatty():
                console.note("reading lines from the terminal; end with Ctrl-D")
            # Not sys.stdin: the reading thread would hold its lock, which Python needs to exit on Ctrl-C.
            stream = files.enter_context(open(0, "rb", closefd=False))
            lines = _decoded(raw_lines(stream, "standard input"), "input line", "standard input", file_names)
        # Lines of a file always form the same groups, so that sampling for a group is reproducible.
        yield from _in_groups(lines, patient=bool(text) or (input is not None and input.is_file()))


def _decoded(lines: Iterable[bytes], what: str, name: str, file_names: bool) -> Iterator[str]:
    """Lines as text. A byte that is not UTF-8 is replaced with a warning, so that no line is lost; if most lines have such
    bytes, the input is in another encoding and refused."""
    from heedful.data.encodings import guess_encoding, other_encoding, refuse_non_text
    from heedful.errors import HeedfulError

    good, bad = 0, b""
    for number, raw in enumerate(lines, 1):
        if number == 1:
            refuse_non_text(raw, name)
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if file_names:
            yield os.fsdecode(line)
            continue
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            good += not line.isascii()
        except UnicodeDecodeError:
            bad += raw.rstrip(b"\n") + b"\n"
            if bad.count(b"\n") > max(FEW_BAD_LINES, good):
                raise HeedfulError(other_encoding(name, guess_encoding(bad))) from None
            console.say(f"warning: {what} {number} is not valid UTF-8", error=True)
            yield line.decode("utf-8", "replace")


def _in_groups(lines: Iterator[str], patient: bool) -> Iterator[list[str]]:
    """Full groups, except for the last; unless `patient`, a group is whatever lines have arrived, possibly one."""
    most = LINES_OF_FILE if patient else LINES
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(most)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again below, after the lines before it
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    end: BaseException | bool = False
    while not end:
        group: list[str] = []
        entry = waiting.get()
        while True:
            if not isinstance(entry, str):
                end = entry or True
                break
            group.append(entry)
            if len(group) == most or (not patient and waiting.empty()):
                break
            entry = waiting.get()
        if group:
            yield group
    if isinstance(end, BaseException):
        raise end
