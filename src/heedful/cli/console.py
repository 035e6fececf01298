"""What the command line prints: lines broken between words in a terminal, whole elsewhere; nothing extra when quiet."""

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
    """A line of standard output, or of standard error."""
    console = Console(stderr=error, highlight=False, emoji=False)
    console.print(text, markup=False, soft_wrap=not console.is_terminal)


def note(text: str) -> None:
    """Something beside the result, on standard error; not when quiet."""
    if not _quiet:
        say(text, error=True)


def screen() -> Screen:
    """Where long work shows how far it is."""
    from heedful.runtime.processes import torchrun_place
    from heedful.runtime.screen import Screen, Silence

    place = torchrun_place()
    return Silence() if _quiet or (place is not None and place[0] != 0) else Screen()


def silence_standard_output() -> None:
    """Nobody reads it any more: what Python still flushes at its end goes nowhere instead of failing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
