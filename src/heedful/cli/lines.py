"""Where a verb gets its text: arguments, a file, or standard input as it comes."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

LINES = 256  # worked on together at most


def groups_of_lines(text: Sequence[str] | None, input: Path | None) -> Iterator[list[str]]:
    """The lines to work on, in groups: the arguments, or a file's lines, or those of standard input as they come."""
    from heedful.data.lines import open_text
    from heedful.errors import UsageError

    if text and input:
        raise UsageError("give text or --input, not both")
    with ExitStack() as files:
        if text:
            lines = _decoded(map(os.fsencode, text), "argument")
        elif input and str(input) != "-":
            lines = _decoded(files.enter_context(open_text(input)), f"{input} line")
        else:
            if sys.stdin.isatty():
                print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
            # Not sys.stdin: its lock, held by the thread that reads, is wanted by Python when Ctrl-C ends it.
            lines = _decoded(files.enter_context(open(0, "rb", closefd=False)), "input line")
        # Lines that are all there make the same groups every time, so that what is drawn for a group is the same too.
        yield from _in_groups(lines, patient=bool(text) or (input is not None and input.is_file()))


def _decoded(lines: Iterable[bytes], what: str) -> Iterator[str]:
    """Lines as text; a byte that is not UTF-8 is replaced and told, so that no line is lost."""
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            print(f"warning: {what} {number} is not valid UTF-8", file=sys.stderr)
            yield line.decode("utf-8", "replace")


def _in_groups(lines: Iterator[str], patient: bool) -> Iterator[list[str]]:
    """Groups that are full but for the last, or without patience of whatever lines are there: one when they trickle."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(LINES)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again below, after what came before it
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
            if len(group) == LINES or (not patient and waiting.empty()):
                break
            entry = waiting.get()
        if group:
            yield group
    if isinstance(end, BaseException):
        raise end
