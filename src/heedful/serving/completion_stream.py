"""Completions in OpenAI's shape, and streams of them: server-sent events with every piece as soon as it is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.requests import Request

from heedful.serving.edge import openai_error
from heedful.serving.pool import Ticket, pieces_of
from heedful.serving.request_error import RequestError, unavailable
from heedful.serving.service import Service, unless_gone
from heedful.settings import JsonObject


def choice_of(index: int, answer: JsonObject) -> JsonObject:
    """One continuation in OpenAI's shape."""
    return {"index": index, **{name: answer[name] for name in ("text", "logprobs", "finish_reason")}}


def usage_of(answers: list[JsonObject], per_prompt: int) -> dict[str, int]:
    """Tokens read, each prompt once, and written."""
    read = sum(answer["prompt_tokens"] for answer in answers[::per_prompt])
    written = sum(answer["completion_tokens"] for answer in answers)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


class CompletionStream:
    """The pieces of several completions, in whatever order they come."""

    def __init__(self, service: Service, tickets: list[Ticket], head: JsonObject, usage: int) -> None:
        """`usage` is how many completions a prompt has, if the stream ends with the number of tokens; or 0."""
        self.service, self.tickets, self.head, self.usage = service, tickets, head, usage
        self.events: asyncio.Queue[JsonObject | RequestError | None] = asyncio.Queue()
        self.first: JsonObject | RequestError | None = None
        self.answers: list[JsonObject] = []
        self.followers = [asyncio.ensure_future(self._follow(index, ticket)) for index, ticket in enumerate(tickets)]
        self.deadline = asyncio.get_running_loop().time() + service.settings.timeout

    async def _follow(self, index: int, ticket: Ticket) -> None:
        try:
            async for piece in pieces_of(ticket):
                await self.events.put({**self.head, "choices": [choice_of(index, piece)]})
            (answer,) = await ticket.future
            self.answers.append(answer)
            await self.events.put({**self.head, "choices": [choice_of(index, answer)]})
        except RequestError as error:
            await self.events.put(error)
        finally:
            await self.events.put(None)

    async def begin(self, request: Request) -> None:
        """Wait for the first piece, so that what cannot be answered has a status of its own, which a stream no longer has."""
        try:
            self.first = await unless_gone(request, self._next())
            if isinstance(self.first, RequestError):
                raise self.first
        except BaseException:
            self.end()
            raise

    async def _next(self) -> JsonObject | RequestError | None:
        left = self.deadline - asyncio.get_running_loop().time()
        try:
            return await asyncio.wait_for(self.events.get(), max(0.0, left))
        except TimeoutError:
            raise unavailable(f"the request took longer than {self.service.settings.timeout:g} seconds", 5) from None

    def end(self) -> None:
        """Nobody waits for the rest."""
        for follower in self.followers:
            follower.cancel()
        self.service.pool.cancel(self.tickets)

    async def lines(self) -> AsyncIterator[bytes]:
        """What is sent."""
        try:
            event, left = self.first, len(self.followers)
            while left:
                if event is None:
                    left -= 1
                else:
                    yield line_of({"error": openai_error(event)} if isinstance(event, RequestError) else event)
                if left:
                    event = await self._next()
            if self.usage and self.answers:
                yield line_of({**self.head, "choices": [], "usage": usage_of(self.answers, self.usage)})
            yield b"data: [DONE]\n\n"
        except RequestError as late:
            yield line_of({"error": openai_error(late)})
        finally:
            self.end()


def line_of(event: JsonObject) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"
