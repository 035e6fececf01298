"""Time and peak memory of one layer, measured in a fresh process, unless it would not fit into memory.

Memory is counted allocation by allocation in PyTorch's allocator, so it is the same in every run, whatever the system
or the allocator keeps for later. Kernels' own buffers count too; they may differ between processors.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path

import torch

from heedful.complexity.layers import LAYERS, LayerShape, LayerType
from heedful.errors import HeedfulError

if sys.platform != "win32":
    import resource

QUIET = {"KINETO_LOG_LEVEL": "99"}  # PyTorch's profiler, which counts allocations, would print a line whenever it starts
SHARE = 0.6  # of the free memory that one measurement may take


@dataclass(frozen=True)
class Cost:
    """The cost of a forward and a backward pass of one layer, or why they were not run."""

    layer: str
    length: int
    width: int
    seconds: float | None = None
    bytes: int | None = None  # most memory in use at a time, beyond the layer's weights and its input
    skipped: str = ""


def measure(layer: str, length: int, shape: LayerShape, rounds: int, limit: int) -> Cost:
    """Run a layer forward and backward in a process of its own, which may use `limit` bytes; if it needs more, the result
    says so.
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
    os.environ.update(QUIET)  # before PyTorch is loaded there
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


def _measure_here(sender: Connection, layer: str, length: int, shape: LayerShape, rounds: int, limit: int) -> None:
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


def _seconds_and_bytes(layer: LayerType, length: int, shape: LayerShape, rounds: int) -> tuple[float, int]:
    """The time of the fastest round, which other programs disturbed least, and the peak memory of a round."""
    torch.manual_seed(1)
    module, x = layer.build(shape, length, 0), torch.randn(1, length, shape.width)
    _pass(module, x)  # warm-up: loads kernels and their permanent buffers
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        _pass(module, x)
        seconds.append(time.perf_counter() - started)
    return min(seconds), peak_bytes(lambda: _pass(module, x))


def _pass(module: torch.nn.Module, x: torch.Tensor) -> None:
    """Forward and backward, to the input as in the middle of a model."""
    y = module(x.requires_grad_())
    y.backward(torch.ones_like(y))
    x.grad = None
    module.zero_grad(set_to_none=True)


def peak_bytes(step: Callable[[], object]) -> int:
    """Peak memory of a step in bytes, beyond what was allocated before it, including the kernels' own buffers.

    It runs on one thread, so that the result does not depend on the number of cores.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.autograd.profiler.profile(profile_memory=True) as profile:
            step()
    finally:
        torch.set_num_threads(threads)
    assert profile.kineto_results is not None
    changes = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate((event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())), initial=0))


def _limit_memory(limit: int) -> None:
    """Let this process allocate only this many more bytes, where the system supports a limit."""
    if sys.platform == "win32":
        return
    with suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, resource.RLIM_INFINITY))
