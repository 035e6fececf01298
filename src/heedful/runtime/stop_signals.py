"""Signals that ask a long job to stop: it finishes the current step, saves and exits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals(ask: Callable[[], None]) -> Iterator[list[int]]:
    """Inside the block, Ctrl-C, SIGTERM and SIGHUP (a closed terminal) call `ask`; yields the list of signals received.

    A second Ctrl-C interrupts at once. A second SIGTERM does not: a cluster may send it to torchrun, which passes it on,
    and to us. A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield arrived
        return

    def handle(number: int, frame: object) -> None:
        if arrived and number == signal.SIGINT:
            raise KeyboardInterrupt
        arrived.append(number)
        ask()

    wanted = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {n: signal.signal(n, handle) for n in wanted if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield arrived
    finally:
        for number, old in before.items():
            signal.signal(number, old)
