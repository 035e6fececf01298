"""Memory that all processes of one machine see, so that they need not send each other what they can read."""

from __future__ import annotations

import mmap
import os
import platform
import time

import numpy as np
import torch
from torch import Tensor

from heedful.runtime.processes import Processes, lost

MOST = 8  # numbers summed at a time
PAUSE = 5e-5  # seconds between two looks at whether the others are there
LOOK = 1.0  # seconds between two looks at whether they are still alive


def shared_floats(processes: Processes, rows: int, columns: int) -> Tensor | None:
    """Zeros (rows, columns) in float32 that every process sees; None where the processes cannot share memory.

    The memory belongs to no file: the first process makes it, the others reach it by its number there, and it is gone
    when the last of them is, however it ends.
    """
    size = rows * columns * torch.float32.itemsize
    place: tuple[int, int] | None = None
    number = -1
    if processes.first and hasattr(os, "memfd_create"):
        number = os.memfd_create("heedful")
        os.truncate(number, size)
        place = (os.getpid(), number)
    # Two machines may have a process of the same number, and a file of the same number open in it.
    everyone = processes.gather((place, platform.node(), _boot()))
    (place, *_), here = everyone[0], [(name, boot) for _, name, boot in everyone]
    memory: mmap.mmap | None = None
    if place is not None and len(set(here)) == 1:
        try:
            with open(f"/proc/{place[0]}/fd/{place[1]}", "r+b") as file:
                memory = mmap.mmap(file.fileno(), size)
        except (OSError, ValueError):
            memory = None
    possible = all(processes.gather(memory is not None))
    if number >= 0:
        os.close(number)  # everyone has it by now, or never will
    if not possible or memory is None:
        return None
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, columns)


class Board:
    """Sums of a few numbers over processes that share memory: each writes its own where all can read them.

    A sum through a connection takes milliseconds, mostly to wake up; a step of a small model asks for three.
    """

    def __init__(self, processes: Processes) -> None:
        room = shared_floats(processes, processes.world, 64)  # a row a process, in cache lines of its own
        assert room is not None
        self.rows = room.numpy().view(np.float64)  # how many sums, numbers of the even sums, numbers of the odd ones
        self.mine = self.rows[processes.rank]
        self.sums = 0
        self.pids: list[int] = processes.gather(os.getpid())

    @staticmethod
    def possible(processes: Processes) -> bool:
        """Where a processor lets others see what it writes in the order of its writing."""
        return all(processes.gather(platform.machine() in ("x86_64", "AMD64")))

    def sum_(self, numbers: Tensor) -> Tensor:
        """Add up a small vector (or number) over all processes, in place; when it is known, all have come here."""
        self.sums += 1
        # Two places in turn: while a fast process writes its next number, a slow one may still be reading the last ones.
        first = 1 + MOST * (self.sums % 2)
        part = slice(first, first + numbers.numel())
        self.mine[part] = numbers.numpy()
        self.mine[0] = self.sums
        look = time.monotonic() + LOOK
        while (self.rows[:, 0] < self.sums).any():
            time.sleep(PAUSE)
            if time.monotonic() > look:
                look += LOOK
                gone = [pid for pid in self.pids if not _alive(pid)]
                if gone:
                    raise lost(f"process {gone[0]}")
        return numbers.copy_(torch.from_numpy(self.rows[:, part].sum(0)).view_as(numbers))


def _alive(pid: int) -> bool:
    """Whether a process of this machine runs; one that ended and was not yet missed does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _boot() -> str:
    """What tells one running machine from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
