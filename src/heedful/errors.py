"""Errors meant for a person: one sentence that says what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeedfulError(Exception):
    """A failure that the user can understand and act on (exit code 1)."""


class Stopped(HeedfulError):
    """A signal asked the work to stop and everything is saved: not an error (exit code 128 + signal)."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class InputError(HeedfulError):
    """One of several inputs cannot be used; the others can (exit code 1)."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index  # which of the inputs, from 0


class UsageError(HeedfulError):
    """The request itself was wrong: an unknown name, a value out of range (exit code 2)."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known word, or the known words when none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(names)}"
