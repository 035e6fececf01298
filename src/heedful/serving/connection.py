"""A connection of a caller: what it sends must arrive in time and have a head of sensible size, and it must take its answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from heedful.serving.settings import ServeSettings

HEAD_BYTES = 65_536  # of a request's address and headers
SLOWEST = 1000  # bytes of an answer that a caller must take per second


def plain_answer(status: str, problem: str, *headers: str) -> bytes:
    """An answer to what never becomes a request, after which the connection is closed."""
    body = json.dumps({"error": problem}).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


TOO_MANY = plain_answer("503 Service Unavailable", "too many connections are open; try again in a moment", "Retry-After: 1")
HEAD_TOO_LARGE = plain_answer(
    "431 Request Header Fields Too Large", f"the address and the headers of a request may have at most {HEAD_BYTES:,} bytes"
)
NOT_HTTP = plain_answer("400 Bad Request", "this is not a valid HTTP request")


def protocol(settings: ServeSettings) -> type[HttpToolsProtocol]:
    """HTTP for callers who must send their request in time and take their answer; connections beyond the limit are closed."""
    open_connections = 0

    class LimitedProtocol(HttpToolsProtocol):
        """A connection that ends when no whole request head arrives in time, or when its answers are not taken."""

        head_timer: asyncio.TimerHandle | None = None
        unread_timer: asyncio.TimerHandle | None = None
        counted = False
        in_head = True
        head_bytes = 0

        def connection_made(self, transport: Any) -> None:
            nonlocal open_connections
            super().connection_made(transport)
            # Whatever the system does not take at once counts as unread, also after the connection is closed on our side.
            transport.set_write_buffer_limits(high=0)
            open_connections += 1
            self.counted = True
            if open_connections > settings.max_connections:
                transport.write(TOO_MANY)
                transport.close()
                return
            self.wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            nonlocal open_connections
            if self.counted:
                open_connections -= 1
                self.counted = False
            self.stop_head_timer()
            self.stop_unread_timer()
            super().connection_lost(exc)

        # What the caller sends

        def wait_for_head(self) -> None:
            self.stop_head_timer()
            self.head_timer = self.loop.call_later(settings.read_timeout, self.transport.close)

        def stop_head_timer(self) -> None:
            if self.head_timer:
                self.head_timer.cancel()
                self.head_timer = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.in_head and not self.transport.is_closing():
                self.count_head(len(data))

        def count_head(self, size: int) -> None:
            """So many bytes more belong to the head of a request."""
            self.head_bytes += size
            if self.head_bytes > HEAD_BYTES:
                self.transport.write(HEAD_TOO_LARGE)
                self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.in_head, self.head_bytes = True, 0
            self.wait_for_head()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self.in_head:  # a trailer, after the body
                self.count_head(len(name) + len(value))
                return
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self.stop_head_timer()
            self.in_head, self.head_bytes = False, 0
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self.transport.write(NOT_HTTP)
            self.transport.close()

        # What the caller takes

        def pause_writing(self) -> None:
            super().pause_writing()
            self.wait_for_reader()

        def resume_writing(self) -> None:
            self.stop_unread_timer()
            super().resume_writing()

        def wait_for_reader(self) -> None:
            """End the connection if the caller does not take enough of what waits for it."""
            waiting = self.transport.get_write_buffer_size()

            def look() -> None:
                if waiting - self.transport.get_write_buffer_size() < SLOWEST * settings.read_timeout:
                    self.transport.abort()
                else:
                    self.wait_for_reader()

            self.stop_unread_timer()
            self.unread_timer = self.loop.call_later(settings.read_timeout, look)

        def stop_unread_timer(self) -> None:
            if self.unread_timer:
                self.unread_timer.cancel()
                self.unread_timer = None

    return LimitedProtocol
