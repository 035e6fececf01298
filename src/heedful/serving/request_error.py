"""Why a request cannot be answered: an HTTP status and a sentence."""

from __future__ import annotations

from heedful.errors import HeedfulError


class RequestError(HeedfulError):
    """A request cannot be answered: an HTTP status and a sentence."""

    def __init__(
        self, status: int, message: str, kind: str = "", retry_after: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.retry_after = status, kind, retry_after
        self.field = field  # of the request, that is wrong


def unavailable(message: str, retry_after: int = 1) -> RequestError:
    """503: try again later."""
    return RequestError(503, message, "overloaded", retry_after)


def failure(kind: str, message: str) -> RequestError:
    """A worker's reason as an HTTP status."""
    if kind == "internal":
        return RequestError(500, message, "internal")
    return RequestError(400, message, kind)
