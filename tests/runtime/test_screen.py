"""What a person sees of long work: times they can read, words that are not broken, and no harm when nobody looks."""

from __future__ import annotations

import io
import os
import pty

import pytest
from rich.console import Console

from heedful.runtime.screen import Screen, duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (60, "1 min 00 s"),
        (725, "12 min 05 s"),
        (132207, "1 d 12 h"),
        (12000, "3 h 20 min"),
        (-3, "0 s"),
    ],
)
def test_times_are_written_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_never_breaks_a_word(width: int) -> None:
    text = " ".join(f"word{number}of{'many' * (number % 4)}" for number in range(60))
    shown = io.StringIO()
    Screen(Console(file=shown, force_terminal=True, width=width, highlight=False, emoji=False, color_system=None)).say(text)
    lines = shown.getvalue().split("\n")
    assert len(lines) > 2
    assert all(len(line) <= width for line in lines)
    assert " ".join(shown.getvalue().split()) == text


def test_a_file_gets_whole_lines() -> None:
    shown = io.StringIO()
    Screen(Console(file=shown, highlight=False, emoji=False)).say("x " * 200 + ":smile: [bold]")
    assert shown.getvalue() == "x " * 200 + ":smile: [bold]\n"


def test_work_goes_on_in_silence_when_the_terminal_is_gone() -> None:
    leader, follower = pty.openpty()
    with open(follower, "w", encoding="utf-8") as terminal:
        screen = Screen(Console(file=terminal, force_terminal=True))
        tick = screen.track("working", 10)
        os.close(leader)  # a closed window: every write fails from now on
        tick(1)
        screen.at_step(1, 10)
        screen.report(1, 10, 2.0, 3.0, "tokens", 4.0)
        screen.say("hello")
        screen.close()
        screen.say("and again")
        with pytest.raises(OSError, match="Input/output error"):
            terminal.write("a write that is flushed\n" * 9999)
        os.dup2(os.open(os.devnull, os.O_WRONLY), follower)
