"""The edge of the service: every request passes here first. Size, time, rate and keys are limited, answers get their headers,
errors the shape that the caller's software expects, and everything is counted and logged."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import OrderedDict

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heedful.serving.metrics import Metrics
from heedful.serving.pool import Pool
from heedful.serving.request_error import RequestError, unavailable
from heedful.serving.settings import Keys, ServeSettings
from heedful.settings import JsonObject

OPEN = {
    "/health",
    "/ready",
    "/docs",
    "/openapi.json",
    "/languages",
    "/frontend/settings",
    "/",
    "/page/models.json",
}  # paths without a key (GET)
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LIBRETRANSLATE = ("/translate", "/translate_file", "/detect", "/languages", "/frontend", "/download_file", "/suggest")
EMBEDDINGS = ("/embed", "/predict", "/tokenize", "/info")
DISCARDED = 8  # a body up to so many times too large is read all the same: who still sends would never see the answer
CALLERS = 10_000  # whose rates are remembered

logger = logging.getLogger("heedful.serve")


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


def error_answer(path: str, error: RequestError) -> Response:
    """An error in the shape of the API that a path belongs to."""
    status = error.status
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    if status in (408, 413):
        headers["Connection"] = "close"  # the rest of the request is not read
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    message = str(error)
    if path == "/v1" or path.startswith("/v1/"):
        status = 400 if status == 422 else status  # as OpenAI answers
        body: JsonObject = {"error": openai_error(error)}
    elif path in EMBEDDINGS or path == "/":
        overloaded = status in (429, 503)
        kind = "overloaded" if overloaded else "validation" if status < 500 else "backend"
        body = {"error": message, "error_type": kind}
    else:
        body = {"error": f"Slowdown: {message}" if status == 429 and path.startswith(LIBRETRANSLATE) else message}
    if status == 401 and path.startswith(LIBRETRANSLATE):
        status = 403  # as LibreTranslate answers
    return JSONResponse(body, status, headers)


def openai_error(error: RequestError) -> JsonObject:
    """What OpenAI's API says of an error."""
    status = error.status
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    if status == 404 and error.kind == "model":
        code = "model_not_found"
    return {"message": str(error), "type": kind, "param": error.field, "code": code}


class Rates:
    """How many requests each caller may still make: a bucket that fills up evenly over a minute."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self.callers: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when

    def check(self, caller: str) -> None:
        """Count a request; an error when there were too many."""
        if not self.per_minute:
            return
        now = time.monotonic()
        left, since = self.callers.pop(caller, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - since) * self.per_minute / 60)
        allowed = left >= 1
        self.callers[caller] = (left - allowed, now)
        while len(self.callers) > CALLERS:
            self.callers.popitem(last=False)
        if not allowed:
            wait = math.ceil((1 - left) * 60 / self.per_minute)
            raise RequestError(429, f"too many requests: at most {self.per_minute:,} per minute", "rate", wait)


class Edge:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, pool: Pool, settings: ServeSettings, keys: Keys, metrics: Metrics, rates: Rates) -> None:
        self.app, self.pool, self.settings, self.keys, self.metrics, self.rates = app, pool, settings, keys, metrics, rates
        self.stopping = False
        self.running = 0
        self.outermost: ASGIApp = self.handle
        origins = [origin.strip() for origin in settings.cors.split(",") if origin.strip()]
        if origins:  # around everything: pages must be able to read errors too, and browsers ask for permission without a key
            allowed = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"], "expose_headers": ["Retry-After"]}
            self.outermost = CORSMiddleware(self.handle, origins, **allowed)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.outermost(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        path = scope["path"]
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *self.extra_headers(path)]
            await send(message)

        self.running += 1
        self.metrics.running.set(self.running)
        try:
            self.admit(scope)
            if scope["method"] == "HEAD":  # as GET; the server leaves the body out
                scope = {**scope, "method": "GET"}
            await self.app(scope, await self.read(scope, receive), answer)
        except RequestError as error:
            if not status:
                await error_answer(path, error)(scope, receive, answer)
        except ClientGone:
            status = 499
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            if not status:  # the time for what has begun is over
                await error_answer(path, unavailable("the service has stopped", 5))(scope, receive, answer)
        except Exception as error:
            logger.error("a request failed", exc_info=error)
            if not status:
                await error_answer(path, RequestError(500, "the request could not be answered"))(scope, receive, answer)
        finally:
            self.running -= 1
            self.metrics.running.set(self.running)
            self.note(scope, status, time.perf_counter() - start)

    def admit(self, scope: Scope) -> None:
        """Whether a request may be made at all: a key that is known, not too often, not while starting or stopping."""
        path, method, headers = scope["path"], scope["method"], Headers(scope=scope)
        caller = scope["client"][0] if scope.get("client") else "?"
        state = scope.setdefault("state", {})
        state |= {"caller": caller, "key_given": False, "deadline": time.monotonic() + self.settings.timeout}
        if self.stopping:
            raise RequestError(503, "the service is stopping", "overloaded", 5)
        if not self.pool.started and path not in ("/health", "/ready"):
            raise RequestError(503, "the models are still being loaded", "overloaded", 5)
        given = key_of(headers)
        if self.keys and given:
            number = self.keys.number(given)
            if number is None:
                self.rates.check(caller)  # so that keys cannot be guessed at any speed
                raise RequestError(401, "this API key is not known", "key")
            state |= {"caller": f"key {number}", "key_given": True}
        if self.keys and not given and self.needs_key(path, method):
            raise RequestError(401, "an API key is needed: send it as Authorization: Bearer KEY", "key")
        in_body = bool(self.keys) and not given and path.startswith(LIBRETRANSLATE)  # then it is counted where it is read
        if method == "POST" and not in_body:
            self.rates.check(state["caller"])

    def needs_key(self, path: str, method: str) -> bool:
        """Whether a key must be in the headers: not for pages, nor where LibreTranslate's callers send it in the body."""
        file = path.startswith(("/docs/", "/page/")) and not path.startswith("/page/models/")
        free = (path in OPEN or file) and method in ("GET", "HEAD")
        return not free and not path.startswith(LIBRETRANSLATE)

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """The whole body of a request, which must be neither too large nor too slow."""
        settings = self.settings
        too_large = RequestError(413, f"a request may have at most {settings.max_body:,} bytes", "size")
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > DISCARDED * settings.max_body:
            raise too_large
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(settings.read_timeout):
                more = True
                while more and size <= DISCARDED * settings.max_body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    size += len(message.get("body", b""))
                    if size <= settings.max_body:
                        body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RequestError(408, f"the request did not arrive within {settings.read_timeout:g} seconds", "slow") from None
        if size > settings.max_body:
            raise too_large
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        return receive_whole

    def extra_headers(self, path: str) -> list[tuple[bytes, bytes]]:
        """Headers of every answer."""
        page = path == "/" or path.startswith(("/docs", "/page/"))
        policy = PAGE_POLICY if page else "default-src 'none'; frame-ancestors 'none'"
        return [
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"content-security-policy", policy.encode()),
            *([] if page else [(b"cache-control", b"no-store")]),
            *(
                [(b"cache-control", b"no-cache")] if path == "/" or path.startswith("/page/") else []
            ),  # but kept, and asked for by ETag
        ]

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request; never its text nor its key."""
        route = scope.get("route")
        path = getattr(route, "path", "other")
        model = scope.get("state", {}).get("model", "")
        self.metrics.requests.labels(path, model, str(status)).inc()
        self.metrics.latency.labels(path, model).observe(seconds)
        if logger.isEnabledFor(logging.INFO):
            client = scope["client"][0] if scope.get("client") else ""
            facts = {"client": client, "method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
            logger.info("request", extra={"facts": facts | ({"model": model} if model else {})})


def key_of(headers: Headers) -> str:
    """The API key in the headers."""
    given = headers.get("authorization", "")
    if given[:7].lower() == "bearer ":
        return given[7:].strip()
    return headers.get("x-api-key", "")


class LogFormat(logging.Formatter):
    """Lines for people, or JSON objects for machines."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        facts: JsonObject = getattr(record, "facts", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self.as_json:
            found = {"time": stamp, "level": record.levelname.lower(), "message": record.getMessage(), **facts}
            return json.dumps(found | ({"traceback": trace} if trace else {}), ensure_ascii=False)
        line = " ".join(str(value) for value in facts.values()) if facts else record.getMessage()
        return f"{stamp[11:19]} {line}" + (f"\n{trace}" if trace else "")
