"""What a person sees while work goes on: a live bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 10.0  # between two plain lines about the same work


class Screen:
    """Says what happens and how far it is."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=False, highlight=False, soft_wrap=True)
        self.live = self.console.is_terminal
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.label = ""
        self.last = 0.0

    def say(self, text: str) -> None:
        """A line that stays."""
        (self.bar.console if self.bar else self.console).print(text, markup=False)

    def track(self, label: str, total: int | None) -> Callable[[int], None]:
        """Begin a piece of work; call the result with how much more of it is done."""
        self._begin(label, total)
        started, done = time.monotonic(), 0

        def tick(more: int) -> None:
            nonlocal done
            done += more
            if self.bar is not None and self.task is not None:
                self.bar.update(self.task, completed=done)
            elif time.monotonic() - max(started, self.last) > PLAIN_SECONDS:
                self.last = time.monotonic()
                self.say(f"{label}: {done:,}" + (f" of {total:,}" if total else ""))

        return tick

    def at_step(self, step: int, steps: int) -> None:
        """Move the bar of training; plain lines come with `report` alone."""
        if self.live and self.label != "training":
            self._begin("training", steps)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=step)

    def report(self, step: int, steps: int, loss: float, rate: float, unit: str, seconds_left: float) -> None:
        """How training goes: loss, tokens (or what else it learns from) a second, time to go."""
        left = f"{int(seconds_left) // 60}:{int(seconds_left) % 60:02d}"
        note = f"loss {loss:.3f}  {rate:,.0f} {unit}/s  ETA {left}"
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, note=note)
        else:
            self.say(f"step {step:,}/{steps:,}  {note}")

    def _begin(self, label: str, total: int | None) -> None:
        self.close()
        self.label = label
        if self.live:
            self.bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task(label, total=total, note="")
            self.bar.start()

    def close(self) -> None:
        """Take the bar off the screen."""
        if self.bar is not None:
            self.bar.stop()
        self.bar = self.task = None
        self.label = ""


class Silence(Screen):
    """For workers: their leader speaks."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
