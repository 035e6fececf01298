"""Several processes that train one model: rank, world size and collective operations.

On one machine `heedful train` starts its own workers; under torchrun the processes are already there. Everything here
works on Linux and macOS; Windows lacks the file locks that training needs (see `lock`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from heedful.errors import HeedfulError

T = TypeVar("T")

TIMEOUT = timedelta(hours=6)  # of collective operations: the first process may prepare a large corpus while the others wait


class Processes:
    """This process's rank and the world size; with a world of one, every method is trivial."""

    def __init__(self, rank: int = 0, world: int = 1, here: int | None = None) -> None:
        self.rank, self.world = rank, world
        self.here = here or world  # processes on this machine

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """All-reduce: the sum of a tensor over all processes, in place."""
        if self.world > 1:
            with reporting_lost_processes():
                dist.all_reduce(tensor)
        return tensor

    def gather(self, value: T) -> list[T]:
        """All-gather: the value of every process, in order of rank."""
        if self.world == 1:
            return [value]
        values = [value] * self.world
        with reporting_lost_processes():
            dist.all_gather_object(values, value)
        return values


@contextmanager
def reporting_lost_processes() -> Iterator[None]:
    """Turn connection errors inside the block into a sentence: another process has died."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise  # not a connection error
        raise lost_process(str(error).splitlines()[0]) from error


def lost_process(reason: str) -> HeedfulError:
    """The error to raise when another process has died."""
    advice = "run the same command again to continue from the last checkpoint"
    return HeedfulError(f"another process of this run died; {advice} ({reason})")


@contextmanager
def joined(rank: int, world: int, store: dist.Store | None = None) -> Iterator[Processes]:
    """Inside the block, this process belongs to the process group; without a `store`, torchrun's environment variables say
    how to join it."""
    # This module keeps the group that exists when it is first imported as a default argument. Imported now, before there is
    # one, it keeps none, and the group can be freed.
    import torch.distributed.nn

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world)) if store is None else world
    with reporting_lost_processes():
        if store is None:
            store = fresh_part(next(dist.rendezvous("env://", timeout=TIMEOUT))[0], rank, world)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=TIMEOUT)
    try:
        yield Processes(rank, world, here)
    finally:
        # Its threads end with it. A gloo thread that outlives Python and still holds a tensor aborts the process.
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """Exit at once, without Python's own shutdown: FSDP never frees the process group, so its threads live on (see `joined`)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fresh_part(store: dist.Store, rank: int, world: int) -> dist.Store:
    """A prefix of a common store that only the processes started together use.

    When torchrun restarts processes, its store still holds the addresses of the dead ones. So rank 0 publishes a fresh
    random prefix, every other rank registers under it, and rank 0 acknowledges each registration. A rank that finds a
    stale prefix gets no acknowledgement there and tries again.
    """
    mine = uuid.uuid4().hex
    if rank == 0:
        store.set("leader", mine)
        for other in range(1, world):
            store.wait([f"{mine}/{other}"], TIMEOUT)
            store.set(f"{mine}/{other}/seen", store.get(f"{mine}/{other}").decode())
        return dist.PrefixStore(mine, store)
    while True:
        store.wait(["leader"], TIMEOUT)
        leader = store.get("leader").decode()
        store.set(f"{leader}/{rank}", mine)
        if store.check([f"{leader}/{rank}/seen"]) and store.get(f"{leader}/{rank}/seen").decode() == mine:
            return dist.PrefixStore(leader, store)
        time.sleep(0.05)


def torchrun_place() -> tuple[int, int] | None:
    """(rank, world size) when torchrun or the like started this process."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return None


@contextmanager
def with_workers(world: int, run: Path, module: str, arguments: list[str]) -> Iterator[Processes]:
    """Start world − 1 workers on this machine, which run `python -m MODULE`, and lead them.

    They find everything else they need in the run directory.
    """
    if world == 1:
        yield Processes()
        return
    _use_loopback()
    store = dist.TCPStore("127.0.0.1", 0, world, is_master=True, wait_for_workers=False)
    met, over = threading.Event(), threading.Event()
    workers: list[subprocess.Popen[bytes]] = []
    with ExitStack() as logs:
        try:
            for rank in range(1, world):
                log = logs.enter_context(open(run / f"worker-{rank}.log", "w", encoding="utf-8"))
                place = [str(run), str(rank), str(world), str(store.port), *arguments]
                # A worker's standard input is a pipe that closes when this process dies, however it dies. In its own
                # session, a worker does not receive the Ctrl-C that is meant for this process.
                workers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", module, *place],
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        env={**os.environ, "LOCAL_RANK": str(rank)},
                    )
                )
            threading.Thread(target=_watch, args=(workers, met, over, run), daemon=True).start()
            with joined(0, world, store) as processes:
                met.set()
                yield processes
            for rank, worker in enumerate(workers, 1):
                if worker.wait(timeout=60) != 0:
                    raise HeedfulError(f"worker {rank} failed at the end; see {run / f'worker-{rank}.log'}")
        finally:
            over.set()
            for worker in workers:
                worker.kill()
                worker.wait()
                if worker.stdin:
                    worker.stdin.close()


def _watch(workers: list[subprocess.Popen[bytes]], met: threading.Event, over: threading.Event, run: Path) -> None:
    """End this process when a worker dies without a connection error: before it has connected, or 30 seconds later."""
    while not over.wait(0.2):
        dead = [rank for rank, worker in enumerate(workers, 1) if worker.poll() not in (None, 0)]
        if dead and (not met.is_set() or not over.wait(30.0)):
            print(f"error: worker {dead[0]} died; see {run / f'worker-{dead[0]}.log'}", file=sys.stderr)
            for worker in workers:
                worker.kill()
            os._exit(1)


@contextmanager
def as_worker(rank: int, world: int, port: int) -> Iterator[Processes]:
    """Join the group of the process that started this one, and exit when that process dies."""
    threading.Thread(target=_die_with_leader, daemon=True).start()
    _use_loopback()
    store = dist.TCPStore("127.0.0.1", port, world, is_master=False)
    with joined(rank, world, store) as processes:
        yield processes


def _die_with_leader() -> None:
    while os.read(0, 1):  # not through sys.stdin, whose lock Python wants when it ends
        pass
    os._exit(1)


def _use_loopback() -> None:
    """Communicate over the loopback interface, because the host's name may not resolve."""
    names = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", names[0])


def most_workers(device: torch.device) -> int:
    """The largest useful number of worker processes on a device of this machine."""
    return {"cpu": 1024, "cuda": torch.cuda.device_count()}.get(device.type, 1)
