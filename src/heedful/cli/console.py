"""Printing: wrapped between words in a terminal, unwrapped elsewhere; only results with `--quiet`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from heedful.runtime.screen import Screen

_quiet = False


def be_quiet(wanted: bool) -> None:
    """Whether to leave out progress and notes (`--quiet`); results and errors are always shown."""
    global _quiet
    _quiet = wanted


def say(text: str = "", error: bool = False) -> None:
    """Print a line to standard output, or to standard error."""
    console = Console(stderr=error, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=not console.is_terminal)


def note(text: str) -> None:
    """Print a remark to standard error, unless quiet."""
    if not _quiet:
        say(text, error=True)


def screen(error: bool = False) -> Screen:
    """Where long work shows its progress: standard output, or standard error if standard output carries results."""
    from heedful.runtime.processes import torchrun_place
    from heedful.runtime.screen import Screen, Silence

    place = torchrun_place()
    if _quiet or (place is not None and place[0] != 0):
        return Silence()
    return Screen(Console(stderr=error, highlight=False, emoji=False))


def silence_standard_output() -> None:
    """Discard what Python would flush on exit: the reader has closed the pipe, so the flush would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
