"""Requests against the limits, their work through the pool, and their answers: what all APIs of the service share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from heedful.jobs.registry import jobs_of
from heedful.serving.edge import ClientGone, Rates
from heedful.serving.languages import Languages
from heedful.serving.pool import Model, Pool, Ticket
from heedful.serving.request_error import RequestError, unavailable
from heedful.serving.settings import Keys, ServeSettings
from heedful.settings import JsonObject

Answers = list[JsonObject]  # of one input
T = TypeVar("T")
AT_ONCE = 512  # inputs of a request that may wait or be worked on at one time


class Service:
    """The pool of workers behind limits."""

    def __init__(self, pool: Pool, settings: ServeSettings, keys: Keys, rates: Rates) -> None:
        self.pool, self.settings, self.keys, self.rates = pool, settings, keys, rates
        self.languages = Languages(pool)

    def any_model(self, name: str | None) -> Model:
        """The model of this name, or the first one."""
        found = self.pool.models.get(name) if name else next(iter(self.pool.models.values()))
        if found is None:
            known = ", ".join(self.pool.models)
            raise RequestError(404, f"there is no model '{str(name)[:80]}'; known: {known}", "model")
        return found

    def model(self, request: Request, name: str | None, verb: str) -> Model:
        """The model that a request names, or the first one that can do what it asks for."""
        if name:
            found = self.any_model(name)
            if verb not in found.facts["verbs"]:
                raise RequestError(400, f"{name} is {found.facts['what']}, which cannot {verb}", "model")
        else:
            able = [model for model in self.pool.models.values() if verb in model.facts["verbs"]]
            if not able:
                needed = " or ".join(job.what for job in jobs_of(verb))
                raise RequestError(404, f"`{verb}` needs {needed}, and none is served", "model")
            found = min(able, key=lambda model: model.facts["verbs"].index(verb))
        request.state.model = found.name
        return found

    def check_texts(self, texts: Sequence[Any]) -> None:
        """Not too many inputs, not too long."""
        if len(texts) > self.settings.max_items:
            raise RequestError(413, f"a request may have at most {self.settings.max_items:,} inputs, not {len(texts):,}", "size")
        parts = [part for text in texts for part in (text if isinstance(text, tuple) else [text])]
        characters = sum(len(part) for part in parts if isinstance(part, str))
        if characters > self.settings.max_characters:
            limit = f"at most {self.settings.max_characters:,}"
            raise RequestError(413, f"a request may have {limit} characters, not {characters:,}", "size")

    def check_options(self, options: JsonObject, inputs: int = 1) -> None:
        """Nothing that would keep a worker busy for too long."""
        for name in ("beam", "n_best"):
            if (options.get(name) or 0) > self.settings.max_beam:
                raise RequestError(400, f"{name} can be at most {self.settings.max_beam:,} here", "usage")
        tokens = options.get("max_tokens") or options.get("length") or 0
        if tokens > self.settings.max_tokens:
            raise RequestError(400, f"at most {self.settings.max_tokens:,} tokens can be written here, not {tokens:,}", "usage")
        count = options.get("count") or options.get("n") or (options.get("n_best") if options.get("sample") else 1) or 1
        if count * inputs > self.settings.max_items:
            raise RequestError(400, f"a request may ask for at most {self.settings.max_items:,} outputs", "usage")

    async def run(self, request: Request, model: Model, verb: str, inputs: Sequence[Any], options: JsonObject) -> list[Any]:
        """The answers to each input, or the RequestError that says why it has none."""
        state = request.state
        if not hasattr(state, "turn"):
            state.turn = next(self.pool.callers)  # everything of a request shares a turn
            # A text may have more sentences than may wait: those of one request are queued as others are answered.
            state.places = asyncio.Semaphore(max(1, min(AT_ONCE, self.settings.max_queue)))
        tickets: list[Ticket] = []

        async def work() -> list[Any]:
            for given in inputs:
                await state.places.acquire()
                try:
                    ticket = self.pool.submit(model, verb, given, options, state.turn)
                except RequestError:
                    state.places.release()
                    raise
                ticket.future.add_done_callback(lambda _: state.places.release())
                tickets.append(ticket)
            return await outcomes_of(tickets)

        return await self.in_time(request, work(), tickets)

    async def wait(self, request: Request, tickets: Sequence[Ticket]) -> list[Any]:
        """The outcomes of some work."""
        return await self.in_time(request, outcomes_of(tickets), tickets)

    async def in_time(self, request: Request, work: Coroutine[Any, Any, list[Any]], tickets: Sequence[Ticket]) -> list[Any]:
        """What work gives, unless the caller goes away or it takes too long; then its tickets are given back."""
        try:
            async with asyncio.timeout(max(0.0, request.state.deadline - time.monotonic())):
                return await unless_gone(request, work)
        except TimeoutError:
            raise unavailable(f"the request took longer than {self.settings.timeout:g} seconds", 5) from None
        finally:
            self.pool.cancel(tickets)

    async def all(self, request: Request, model: Model, verb: str, inputs: Sequence[Any], options: JsonObject) -> list[Answers]:
        """The answers to each input; an error of one is an error of the request."""
        found = await self.run(request, model, verb, inputs, options)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return found


async def outcomes_of(tickets: Sequence[Ticket]) -> list[Any]:
    """The answers to each ticket, or the RequestError that says why it has none; one of the service is one of the request."""
    futures = [ticket.future for ticket in tickets]
    if futures:  # waited for and not gathered: who gives up on them must find them as they are, to take them from the workers
        await asyncio.wait(futures)
    outcomes = [future.exception() or future.result() for future in futures]
    for outcome in outcomes:
        if isinstance(outcome, RequestError) and outcome.status >= 500:
            raise outcome
    return outcomes


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of work, which ends early when the caller goes away."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        gone.cancel()
        task.cancel()


async def disconnected(request: Request) -> None:
    """Returns when the caller has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
