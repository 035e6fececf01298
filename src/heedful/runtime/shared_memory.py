"""Memory shared by the processes of one machine, and sums through it.

Linux only (memfd and /proc); elsewhere `shared_floats` gives None and the processes communicate through gloo. `Board`
also needs x86, whose stores become visible to other cores in order.
"""

from __future__ import annotations

import mmap
import os
import platform
import time

import numpy as np
import torch
from torch import Tensor

from heedful.runtime.processes import Processes, lost_process

MOST = 8  # numbers summed at a time
POLL = 5e-5  # seconds between checks whether the others have arrived
ALIVE = 1.0  # seconds between checks whether they are still alive


def shared_floats(processes: Processes, rows: int, columns: int) -> Tensor | None:
    """A float32 tensor of zeros (rows, columns) in memory shared by all processes; None where they cannot share memory.

    The memory is an anonymous file: rank 0 creates it, the others open it through /proc, and the kernel frees it when the
    last of them ends, however it ends.
    """
    size = rows * columns * torch.float32.itemsize
    place: tuple[int, int] | None = None
    number = -1
    if processes.first and hasattr(os, "memfd_create"):
        number = os.memfd_create("heedful")
        os.truncate(number, size)
        place = (os.getpid(), number)
    # Another machine may have a process with the same id and the same open file number: compare machines, too.
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
        os.close(number)  # every process has mapped it by now, or never will
    if not possible or memory is None:
        return None
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, columns)


class Board:
    """All-reduce of a few numbers between processes that share memory: each writes its own where all can read them.

    An all-reduce through a socket takes milliseconds, mostly to wake up the receiver; a step of a small model needs three.
    """

    def __init__(self, processes: Processes) -> None:
        room = shared_floats(processes, processes.world, 64)  # one row per process, in cache lines of its own
        assert room is not None
        self.rows = room.numpy().view(np.float64)  # how many sums, numbers of the even sums, numbers of the odd ones
        self.mine = self.rows[processes.rank]
        self.sums = 0
        self.pids: list[int] = processes.gather(os.getpid())

    @staticmethod
    def possible(processes: Processes) -> bool:
        """Whether stores of one core become visible to the others in program order, as on x86."""
        return all(processes.gather(platform.machine() in ("x86_64", "AMD64")))

    def sum_(self, numbers: Tensor) -> Tensor:
        """The sum of a small vector (or number) over all processes, in place. Also a barrier."""
        self.sums += 1
        # Double buffering: while a fast process writes its next numbers, a slow one may still be reading the previous ones.
        first = 1 + MOST * (self.sums % 2)
        part = slice(first, first + numbers.numel())
        self.mine[part] = numbers.numpy()
        self.mine[0] = self.sums
        look = time.monotonic() + ALIVE
        while (self.rows[:, 0] < self.sums).any():
            time.sleep(POLL)
            if time.monotonic() > look:
                look += ALIVE
                gone = [pid for pid in self.pids if not _alive(pid)]
                if gone:
                    raise lost_process(f"process {gone[0]}")
        return numbers.copy_(torch.from_numpy(self.rows[:, part].sum(0)).view_as(numbers))


def _alive(pid: int) -> bool:
    """Whether a process of this machine is running; a zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _boot() -> str:
    """An id of this boot of this machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
