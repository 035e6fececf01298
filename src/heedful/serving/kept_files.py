"""Translated files that wait to be fetched."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from pathlib import PurePath

from heedful.serving.request_error import RequestError

KEPT_FILES = 100  # translated files that wait to be fetched
KEPT_SECONDS = 600.0
KEPT_BYTES = 100_000_000


class KeptFiles:
    """Translated files that wait to be fetched, for some minutes."""

    def __init__(self) -> None:
        self.files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()

    def keep(self, name: str, content: bytes) -> str:
        """Keep a file; returns the secret name under which it can be fetched."""
        secret = f"{secrets.token_urlsafe(16)}{PurePath(name).suffix}"
        self.files[secret] = (time.monotonic(), name, content)
        self.forget_old()
        return secret

    def fetch(self, secret: str) -> tuple[str, bytes]:
        """The name and content of a file."""
        self.forget_old()
        if secret not in self.files:
            raise RequestError(404, "there is no such file; translated files are kept for ten minutes")
        _, name, content = self.files[secret]
        return name, content

    def forget_old(self) -> None:
        """Forget what nobody fetched in time, and the oldest when there are too many."""
        size = sum(len(content) for _, _, content in self.files.values())
        while self.files:
            kept, _, content = next(iter(self.files.values()))
            if len(self.files) <= KEPT_FILES and size <= KEPT_BYTES and time.monotonic() - kept < KEPT_SECONDS:
                return
            size -= len(content)
            self.files.popitem(last=False)
