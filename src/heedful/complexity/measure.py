"""Time and peak memory of one layer, each measured in a fresh process; nothing is tried that does not fit."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path

import torch

from heedful.complexity.layers import LAYERS, LayerType, Shape
from heedful.errors import HeedfulError

if sys.platform != "win32":
    import resource

M_MMAP_THRESHOLD = -3  # of glibc's malloc.h: allocations from this size on are mapped one by one
SHARE = 0.6  # of the free memory that one measurement may take


@dataclass(frozen=True)
class Cost:
    """What a forward and a backward pass of one layer cost, or why they were not tried."""

    layer: str
    length: int
    width: int
    seconds: float | None = None
    bytes: int | None = None  # most memory in use at a time, beyond what the process had before
    skipped: str = ""


def measure(layer: str, length: int, shape: Shape, rounds: int, limit: int) -> Cost:
    """Run a layer forward and backward in a process of its own.

    The process may take `limit` bytes; if it needs more, the cost says so.
    """
    context = _fresh_processes()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure_here, args=(sender, layer, length, shape, rounds, limit), daemon=True)
    try:
        process.start()
        sender.close()
        found = receiver.recv()
    except EOFError:
        process.join()
        found = "it did not fit into memory" if process.exitcode == -signal.SIGKILL else f"it ended with code {process.exitcode}"
    finally:
        if process.pid is not None:  # it was started
            process.kill()
            process.join()
        receiver.close()
    if isinstance(found, str):
        return Cost(layer, length, shape.width, skipped=found)
    return Cost(layer, length, shape.width, *found)


def _fresh_processes() -> ForkServerContext | SpawnContext:
    """How to start processes: by a server that has imported PyTorch once and that Ctrl-C does not reach."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    multiprocessing.resource_tracker.ensure_running()  # now, because starting it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the server inherits this
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _measure_here(sender: Connection, layer: str, length: int, shape: Shape, rounds: int, limit: int) -> None:
    """In the process of a measurement: send (seconds, bytes), or a sentence on why there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    found: tuple[float, int] | str
    try:
        _limit_memory(limit)
        found = _seconds_and_bytes(LAYERS[layer], length, shape, rounds)
    except HeedfulError as error:
        found = str(error)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        found = f"it did not fit into {limit / 1e9:,.1f} GB"
    with suppress(OSError):  # the parent has ended
        sender.send(found)


def _seconds_and_bytes(layer: LayerType, length: int, shape: Shape, rounds: int) -> tuple[float, int]:
    """The fastest round, which other programs have disturbed least, and the peak of a round."""
    torch.manual_seed(1)
    module, x = layer.build(shape, length, 0), torch.randn(1, length, shape.width)
    _pass(module, x)  # loads kernels and their buffers, which stay
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        _pass(module, x)
        seconds.append(time.perf_counter() - started)
    give_back_memory()
    before = _forget_peak()
    _pass(module, x)
    peak = _peak_bytes() - before
    return min(seconds), max(0, peak)


def _pass(module: torch.nn.Module, x: torch.Tensor) -> None:
    """Forward and backward, to the input as in the middle of a model."""
    y = module(x.requires_grad_())
    y.backward(torch.ones_like(y))
    x.grad = None
    module.zero_grad(set_to_none=True)


def give_back_memory() -> None:
    """Return freed memory to the system, now and as soon as a tensor is freed from now on (glibc).

    Otherwise a peak would depend on what the allocator happens to keep for later.
    """
    gc.collect()
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 16)
        libc.malloc_trim(0)


def _limit_memory(limit: int) -> None:
    """Let this process allocate so many bytes more, where the system can limit it."""
    if sys.platform == "win32":
        return
    with suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, resource.RLIM_INFINITY))


def _forget_peak() -> int:
    """Begin a new peak; returns the bytes in use now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return _peak_bytes()


def _peak_bytes() -> int:
    """The most bytes that this process has had in memory."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        raise HeedfulError("memory cannot be measured on Windows")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
