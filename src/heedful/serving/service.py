"""What all APIs share: checks requests against the limits, sends their work to the pool and waits for the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from heedful.jobs.registry import jobs_of
from heedful.serving.edge import ClientGone, Rates
from heedful.serving.languages import Languages
from heedful.serving.pool import Model, Pool, Ticket
from heedful.serving.request_error import RequestError, unavailable
from heedful.serving.settings import Keys, ServeSettings
from heedful.settings import JsonObject

Answers = list[JsonObject]  # of one input


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
        """Raise an error if there are too many inputs or they are too long."""
        if len(texts) > self.settings.max_items:
            raise RequestError(413, f"a request may have at most {self.settings.max_items:,} inputs, not {len(texts):,}", "size")
        parts = [part for text in texts for part in (text if isinstance(text, tuple) else [text])]
        characters = sum(len(part) for part in parts if isinstance(part, str))
        if characters > self.settings.max_characters:
            limit = f"at most {self.settings.max_characters:,}"
            raise RequestError(413, f"a request may have {limit} characters, not {characters:,}", "size")

    def check_options(self, options: JsonObject, inputs: int = 1) -> None:
        """Raise an error for options that would keep a worker busy for too long."""
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
        if not hasattr(request.state, "turn"):
            request.state.turn = next(self.pool.callers)  # everything of a request shares a turn
        tickets: list[Ticket] = []
        try:
            for given in inputs:
                tickets.append(self.pool.submit(model, verb, given, options, request.state.turn))
        except RequestError:
            self.pool.cancel(tickets)
            raise
        return await self.wait(request, tickets)

    async def wait(self, request: Request, tickets: Sequence[Ticket]) -> list[Any]:
        """The outcomes of some work, unless the caller goes away or it takes too long."""
        work = asyncio.gather(*(ticket.future for ticket in tickets), return_exceptions=True)
        gone = asyncio.ensure_future(disconnected(request))
        ends: set[asyncio.Future[Any]] = {work, gone}
        try:
            left = request.state.deadline - time.monotonic()
            done, _ = await asyncio.wait(ends, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                for outcome in work.result():
                    if isinstance(outcome, RequestError) and outcome.status >= 500:
                        raise outcome
                return list(work.result())
            if gone in done:
                raise ClientGone
            raise unavailable(f"the request took longer than {self.settings.timeout:g} seconds", 5)
        finally:
            gone.cancel()
            self.pool.cancel(tickets)
            if not work.done():
                work.cancel()

    async def all(self, request: Request, model: Model, verb: str, inputs: Sequence[Any], options: JsonObject) -> list[Answers]:
        """The answers to each input; an error of one is an error of the request."""
        found = await self.run(request, model, verb, inputs, options)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return found


async def disconnected(request: Request) -> None:
    """Returns when the caller has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
