"""The worker processes of the service, seen from the front process: a fair queue, dispatch, cancelling, replacing, reloading."""

from __future__ import annotations

import asyncio
import itertools
import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from heedful.errors import HeedfulError
from heedful.jobs.options import Backend
from heedful.runtime.cores import cores
from heedful.runtime.fair_queue import FairQueue
from heedful.serving.messages import Cancel, Done, Failed, FromWorker, Load, Loaded, Piece, Stats, ToWorker, Unload, Work
from heedful.serving.request_error import failure, unavailable
from heedful.serving.worker import serve_models
from heedful.settings import JsonObject

WINDOW = 8192  # estimated tokens (times beams) sent to a worker before some are answered
ATTEMPTS = 2  # how many workers may die with a piece of work before it is given up
PATIENCE = 30.0  # longest wait in seconds before restarting a worker that keeps dying
WATCH = 2.0  # seconds between checks of the model directories

logger = logging.getLogger("heedful.serve")


@dataclass
class Model:
    """A model under the name that callers use."""

    name: str
    folder: Path
    key: str = ""  # of the current version
    facts: JsonObject = field(default_factory=dict)
    loaded: float = field(default_factory=time.time)
    stamp: tuple[object, ...] = ()  # of its files
    retired: set[str] = field(default_factory=set)  # old versions that still have work


@dataclass(eq=False)
class Ticket:
    """A piece of work: waiting, at a worker, or answered."""

    work: Work
    cost: int
    future: asyncio.Future[list[JsonObject]]
    pieces: asyncio.Queue[JsonObject | None] | None = None
    sent: int = 0  # pieces that went out, which a second worker writes again
    skip: int = 0
    attempts: int = 0
    worker: WorkerProcess | None = None


class WorkerProcess:
    """One worker: its process, its pipe, and the work it has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: BaseProcess | None = None
        self.pipe: Connection | None = None
        self.tickets: dict[int, Ticket] = {}
        self.models: set[str] = set()  # keys that are loaded
        self.load: Counter[int] = Counter()  # tokens of its work, by caller
        self.total = 0  # of all callers
        self.started = 0.0
        self.deaths = 0  # deaths in quick succession


class Pool:
    """All workers and models of a service."""

    def __init__(
        self,
        models: dict[str, Path],
        workers: int,
        device: str,
        max_queue: int,
        metrics: Any = None,
        backend: Backend = "native",
    ) -> None:
        self.models = {name: Model(name, folder) for name, folder in models.items()}
        self.device, self.backend, self.max_queue, self.metrics = device, backend, max_queue, metrics
        self.context = multiprocessing.get_context("spawn")
        count = workers or cores()
        self.threads = max(1, cores() // count)
        self.workers = [WorkerProcess(number) for number in range(count)]
        self.queue: FairQueue[Ticket] = FairQueue()
        self.callers = itertools.count(1)
        self.numbers = itertools.count(1)
        self.versions = itertools.count(1)
        self.waiting_for: dict[str, asyncio.Future[JsonObject]] = {}  # key of a version that is being loaded
        self.started = False  # every model has been loaded
        self.closing = False
        self.tasks: set[asyncio.Task[Any]] = set()

    # Starting and stopping

    async def start(self) -> None:
        """Start the workers and load the models; an error in words when one cannot be loaded."""
        self.loop = asyncio.get_running_loop()
        for model in self.models.values():
            model.key = f"{model.name}#{next(self.versions)}"
            self.waiting_for[model.key] = self.loop.create_future()
        for worker in self.workers:
            self.launch(worker)
        for model in self.models.values():
            model.facts = await self.waiting_for[model.key]
            del self.waiting_for[model.key]
            model.stamp = stamp_of(Path(model.facts["folder"]))
        self.started = True
        self.spawn(self.watch())

    def spawn(self, work: Any) -> None:
        """Run a coroutine in the background."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def launch(self, worker: WorkerProcess) -> None:
        """Start the process of a worker."""
        ours, theirs = self.context.Pipe()
        arguments = (theirs, self.threads, self.device, logger.getEffectiveLevel(), self.backend)
        worker.process = self.context.Process(target=serve_models, args=arguments, daemon=True, name=f"heedful-{worker.number}")
        worker.process.start()
        theirs.close()
        worker.pipe, worker.started, worker.load, worker.models = ours, time.monotonic(), Counter(), set()
        worker.total = 0
        self.loop.add_reader(ours.fileno(), self.receive, worker)
        for model in self.models.values():
            for key in {model.key, *(k for k in self.waiting_for if k.startswith(f"{model.name}#"))}:
                self.send(worker, Load(key, str(model.folder)))

    async def stop(self) -> None:
        """End all workers."""
        self.closing = True
        for task in list(self.tasks):
            task.cancel()
        for worker in self.workers:
            self.close(worker)
        deadline = time.monotonic() + 3.0
        for worker in self.workers:
            if worker.process:
                while worker.process.is_alive() and time.monotonic() < deadline:
                    await asyncio.sleep(0.02)
                if worker.process.is_alive():
                    worker.process.kill()
                worker.process.join()

    def close(self, worker: WorkerProcess) -> None:
        """Close the pipe of a worker, which makes it exit."""
        if worker.pipe:
            self.loop.remove_reader(worker.pipe.fileno())
            worker.pipe.close()
            worker.pipe = None

    @property
    def ready(self) -> bool:
        """Whether every model is loaded by some worker."""
        return (
            self.started
            and not self.closing
            and all(any(model.key in worker.models for worker in self.workers) for model in self.models.values())
        )

    # Work

    def submit(self, model: Model, verb: str, given: Any, options: JsonObject, caller: int, stream: bool = False) -> Ticket:
        """Queue one input of a caller, who takes turns with the others. An error when too many wait."""
        if self.closing:
            raise unavailable("the service is stopping", 5)
        if len(self.queue) >= self.max_queue:
            raise unavailable("too many requests are waiting; try again in a moment")
        rows = options.get("beam") or (model.facts["beam"] if verb in ("translate", "summarize") else 1)
        size = len(given) if isinstance(given, str | list) else 100
        ticket = Ticket(
            Work(next(self.numbers), model.key, verb, given, options, caller),
            max(1, int(rows)) * (size // 3 + 8),
            self.loop.create_future(),
            asyncio.Queue() if stream else None,
        )
        ticket.future.add_done_callback(_seen)
        self.queue.add(ticket, caller)
        self.dispatch()
        return ticket

    def cancel(self, tickets: Iterable[Ticket]) -> None:
        """Cancel tickets that nobody is waiting for any more."""
        for ticket in tickets:
            if ticket.future.done():
                continue
            ticket.future.cancel()
            worker = ticket.worker
            if worker and ticket.work.id in worker.tickets:
                self.send(worker, Cancel(ticket.work.id))
                self.take_back(worker, ticket)
            else:
                self.queue.remove(ticket, ticket.work.caller)
        self.dispatch()

    def dispatch(self) -> None:
        """Send waiting work to the workers that have room, the least busy first."""
        while any(worker.pipe and worker.total < WINDOW for worker in self.workers):
            found = self.queue.pop(lambda ticket, _: self.worker_for(ticket) is not None)
            if found is None:
                break
            ticket, _ = found
            worker = ticket.worker = self.worker_for(ticket)
            assert worker
            ticket.work = ticket.work._replace(key=self.current(ticket.work.key))
            worker.tickets[ticket.work.id] = ticket
            worker.load[ticket.work.caller] += ticket.cost
            worker.total += ticket.cost
            self.send(worker, ticket.work)
        if self.metrics:
            self.metrics.queue.set(len(self.queue))

    def worker_for(self, ticket: Ticket) -> WorkerProcess | None:
        """The least busy worker that has room for a ticket. A caller never gets more of a worker than would remain free, but
        always one piece of work."""
        key, caller = self.current(ticket.work.key), ticket.work.caller
        able = [worker for worker in self.workers if worker.pipe and key in worker.models]
        able = [
            worker
            for worker in able
            if worker.load[caller] + ticket.cost <= WINDOW - worker.total or (not worker.load[caller] and worker.total < WINDOW)
        ]
        return min(able, key=lambda worker: worker.total, default=None)

    def current(self, key: str) -> str:
        """The current version of a model, for work that was queued for an earlier one."""
        return self.models[key.rpartition("#")[0]].key

    def send(self, worker: WorkerProcess, message: ToWorker) -> None:
        """Send a message to a worker; if it has just died, `receive` will notice."""
        if worker.pipe:
            with suppress(OSError):
                worker.pipe.send(message)

    def take_back(self, worker: WorkerProcess, ticket: Ticket) -> None:
        """Remove a ticket from a worker."""
        del worker.tickets[ticket.work.id]
        worker.load[ticket.work.caller] -= ticket.cost
        worker.total -= ticket.cost
        if not worker.load[ticket.work.caller]:
            del worker.load[ticket.work.caller]
        ticket.worker = None
        self.retire()

    # What workers say

    def receive(self, worker: WorkerProcess) -> None:
        """Handle the next message of a worker, again while there are more; the end of its pipe means that it has died."""
        try:
            if worker.pipe:
                self.handle(worker, worker.pipe.recv())
        except (EOFError, OSError):
            self.bury(worker)
        self.dispatch()

    def handle(self, worker: WorkerProcess, message: FromWorker) -> None:
        """Handle one message of a worker."""
        match message:
            case Loaded(key, facts, error):
                if not error:
                    worker.models.add(key)
                    worker.deaths = 0
                future = self.waiting_for.get(key)
                if future and not future.done():
                    if error:
                        future.set_exception(HeedfulError(error))
                    elif all(key in other.models for other in self.workers if other.pipe):
                        future.set_result(facts)
            case Stats(key, sizes):
                if self.metrics:
                    self.metrics.batches(key.rpartition("#")[0], sizes)
            case Piece(id, answer):
                ticket = worker.tickets.get(id)
                if ticket and ticket.pieces is not None:
                    if ticket.skip:
                        ticket.skip -= 1
                    else:
                        ticket.sent += 1
                        ticket.pieces.put_nowait(answer)
            case Done(id, answers, tokens):
                ticket = worker.tickets.get(id)
                if ticket:
                    if self.metrics and tokens:
                        self.metrics.tokens.labels(ticket.work.key.rpartition("#")[0]).inc(tokens)
                    self.settle(worker, ticket, answers)
            case Failed(id, kind, text):
                ticket = worker.tickets.get(id)
                if ticket:
                    self.settle(worker, ticket, failure(kind, text))

    def settle(self, worker: WorkerProcess, ticket: Ticket, outcome: list[JsonObject] | Exception) -> None:
        """Finish a ticket with its answer or an error."""
        self.take_back(worker, ticket)
        self.answer(ticket, outcome)

    def answer(self, ticket: Ticket, outcome: list[JsonObject] | Exception) -> None:
        if not ticket.future.done():
            if isinstance(outcome, Exception):
                ticket.future.set_exception(outcome)
            else:
                ticket.future.set_result(outcome)
        if ticket.pieces is not None:
            ticket.pieces.put_nowait(None)

    def bury(self, worker: WorkerProcess) -> None:
        """Replace a worker that died: its work goes to another one, and a new process is started."""
        self.close(worker)
        worker.models = set()
        if self.closing:
            return
        lived = time.monotonic() - worker.started
        worker.deaths = worker.deaths + 1 if lived < 60 else 1
        logger.error("worker %d died after %.1f s with %d requests; starting another", worker.number, lived, len(worker.tickets))
        if self.metrics:
            self.metrics.deaths.inc()
        for ticket in reversed(list(worker.tickets.values())):
            ticket.attempts += 1
            ticket.worker = None
            if ticket.attempts >= ATTEMPTS:
                self.answer(ticket, unavailable("the request could not be answered: its worker died twice", 5))
            else:
                ticket.skip, ticket.sent = ticket.sent, 0
                self.queue.add(ticket, ticket.work.caller, first=True)
        worker.tickets, worker.load, worker.total = {}, Counter(), 0
        process, worker.process = worker.process, None
        self.spawn(self.replace(worker, process, min(PATIENCE, 0.0 if worker.deaths == 1 else 0.25 * 2**worker.deaths)))

    async def replace(self, worker: WorkerProcess, process: BaseProcess | None, wait: float) -> None:
        """Start a worker again, after a delay if it died soon after its start."""
        if process:
            await asyncio.to_thread(process.join)
        await asyncio.sleep(wait)
        self.launch(worker)

    # Reloading

    async def watch(self) -> None:
        """Reload a model when its files have changed and then stay the same."""
        seen: dict[str, tuple[object, ...]] = {}
        while True:
            await asyncio.sleep(WATCH)
            for model in self.models.values():
                stamp = stamp_of(Path(model.facts["folder"]))
                if stamp and stamp != model.stamp and seen.get(model.name) == stamp:
                    await self.reload(model)
                seen[model.name] = stamp

    async def reload(self, model: Model) -> None:
        """Load a new version of a model beside the current one, and switch when every worker has it."""
        stamp = stamp_of(Path(model.facts["folder"]))
        key = f"{model.name}#{next(self.versions)}"
        future = self.waiting_for[key] = self.loop.create_future()
        for worker in self.workers:
            self.send(worker, Load(key, str(model.folder)))
        try:
            facts = await asyncio.wait_for(future, 600)
        except (HeedfulError, TimeoutError) as error:
            logger.error("%s is not reloaded: %s", model.name, error)
            model.stamp = stamp
            for worker in self.workers:
                worker.models.discard(key)
                self.send(worker, Unload(key))
            return
        finally:
            self.waiting_for.pop(key, None)
        model.retired.add(model.key)
        model.key, model.facts, model.stamp, model.loaded = key, facts, stamp, time.time()
        logger.warning("%s is reloaded", model.name)
        self.retire()
        self.dispatch()

    async def reload_all(self) -> None:
        """Reload every model, as SIGHUP asks for."""
        for model in self.models.values():
            await self.reload(model)

    def retire(self) -> None:
        """Unload old versions that have no work left."""
        for model in self.models.values():
            for key in [k for k in model.retired if not any(t.work.key == k for w in self.workers for t in w.tickets.values())]:
                model.retired.discard(key)
                for worker in self.workers:
                    worker.models.discard(key)
                    self.send(worker, Unload(key))


async def pieces_of(ticket: Ticket) -> AsyncIterator[JsonObject]:
    """The pieces of an answer as they are written."""
    assert ticket.pieces is not None
    while (piece := await ticket.pieces.get()) is not None:
        yield piece


def stamp_of(folder: Path) -> tuple[object, ...]:
    """A stamp that changes when a model directory is written again."""
    try:
        found = [(folder / name).stat() for name in ("config.json", "model.safetensors")]
    except OSError:
        return ()
    return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


def _seen(future: asyncio.Future[Any]) -> None:
    """Mark the error of a future as seen, because its caller may have gone."""
    if not future.cancelled():
        future.exception()
