"""Progress display: a live bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 10.0  # between two progress lines about the same work


class Screen:
    """Shows messages and progress."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, emoji=False)
        self.live = self.console.is_terminal
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.label = ""
        self.last = 0.0

    def say(self, text: str) -> None:
        """Print a line that stays on the screen."""
        # A terminal gets lines broken between words, a file or a pipe gets them whole.
        self._try(lambda: self.console.print(text, markup=False, soft_wrap=not self.live))

    def _try(self, show: Callable[[], object]) -> None:
        """Call `show`; if printing is no longer possible (a closed terminal or pipe, a full disk), continue silently."""
        try:
            show()
        except OSError:
            self.console.quiet, self.live, self.bar, self.task = True, False, None, None

    def track(self, label: str, total: int | None, done: int = 0) -> Callable[[int], None]:
        """Begin or continue showing the progress of some work; call the result with the amount just completed."""
        self._begin(label, total)
        started, earlier = time.monotonic(), done

        def tick(more: int) -> None:
            nonlocal done
            done += more
            left = ""
            if total and done > earlier:
                left = f"{duration((total - done) * (time.monotonic() - started) / (done - earlier))} left"
            if self.bar is not None and self.task is not None:
                self._update(lambda bar, task: bar.update(task, completed=done, note=left))
            elif time.monotonic() - max(started, self.last) > PLAIN_SECONDS:
                self.last = time.monotonic()
                self.say(f"{label}: {done:,}" + (f" of {total:,}, {left}" if total else ""))

        return tick

    def at_step(self, step: int, steps: int) -> None:
        """Update the training progress bar; without a terminal, only `report` prints."""
        if self.live and self.label != "training":
            self._begin("training", steps)
        self._update(lambda bar, task: bar.update(task, completed=step))

    def report(self, step: int, steps: int, loss: float, rate: float, unit: str, seconds_left: float) -> None:
        """Show the progress of training: loss, tokens (or other units) per second, time left."""
        note = f"loss {loss:.3f}  {rate:,.0f} {unit}/s  {duration(seconds_left)} left"
        if self.bar is not None:
            self._update(lambda bar, task: bar.update(task, note=note))
        else:
            self.say(f"step {step:,}/{steps:,}  {note}")

    def _update(self, change: Callable[[Progress, TaskID], None]) -> None:
        bar, task = self.bar, self.task
        if bar is not None and task is not None:
            self._try(lambda: change(bar, task))

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
            self._try(self.bar.start)

    def close(self) -> None:
        """Remove the progress bar from the screen."""
        if self.bar is not None:
            self._try(self.bar.stop)
        self.bar = self.task = None
        self.label = ""


def duration(seconds: float) -> str:
    """`45 s`, `12 min 05 s`, `3 h 20 min`, `1 d 12 h`"""
    whole = max(0, round(seconds))
    for size, name, smaller, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size:,} {name} {whole % size // smaller:02d} {small_name}"
    return f"{whole} s"


class Silence(Screen):
    """Shows nothing: for workers, whose leader reports, and for `--quiet`."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
