"""The settings of the service: where it listens, how much it accepts, who may use it."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Interval

from heedful.errors import HeedfulError
from heedful.jobs.options import ABOUT_BACKEND, Backend
from heedful.settings import Count, CountOrNone, check_fields, setting

Seconds = Annotated[float, Interval(ge=0.1, le=86_400)]
KEYS_VARIABLE = "HEEDFUL_API_KEYS"


@dataclass(frozen=True)
class ServeSettings:
    """Every setting of `heedful serve`."""

    host: str = setting("127.0.0.1", "Address to listen at; 0.0.0.0 is every address of this machine.")
    port: Annotated[int, Interval(ge=0, le=65_535)] = setting(8000, "Port to listen at; 0 is any free one.")
    workers: Annotated[int, Interval(ge=0, le=1024)] = setting(0, "Worker processes; 0 is one per core.")
    device: str = setting("auto", "auto, cpu, cuda or mps.")
    backend: Backend = setting("native", ABOUT_BACKEND)
    max_body: Count = setting(10_000_000, "Bytes of a request at most.")
    max_characters: Count = setting(100_000, "Characters of all texts of a request at most.")
    max_items: Count = setting(256, "Texts or images of a request at most.")
    max_beam: Count = setting(16, "Widest beam, and most translations of a text, that a request may ask for.")
    max_tokens: Count = setting(2_000, "Tokens that a request may have written at most.")
    max_queue: Count = setting(2_000, "Texts that may wait; beyond that requests are answered with 503.")
    max_connections: Count = setting(1_000, "Connections that may be open at one time.")
    timeout: Seconds = setting(60.0, "Seconds after which a request is given up with 503.")
    read_timeout: Seconds = setting(15.0, "Seconds in which a request must arrive, and an answer be taken bit by bit.")
    grace: Seconds = setting(20.0, "Seconds that begun requests get when the service is stopped.")
    requests_per_minute: CountOrNone = setting(0, "Of each API key, or each address without keys; 0 is no limit.")
    api_keys: str = setting("", f"A file with one API key per line; also ${KEYS_VARIABLE}, separated by commas.")
    cors: str = setting("", "Web pages that may call the service, separated by commas, such as https://example.org; * is all.")
    log_json: bool = setting(False, "Log one JSON object per line.")

    def __post_init__(self) -> None:
        check_fields(self)


class Keys:
    """The API keys that may be used; with none, everybody may."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, path: str) -> Keys:
        """Keys of a file and of the environment."""
        found = [key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",")]
        if path:
            try:
                lines = Path(path).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise HeedfulError(f"the API keys cannot be read from {path}: {error}") from error
            found += [line.strip() for line in lines if not line.lstrip().startswith("#")]
            if not any(found):
                raise HeedfulError(f"{path} has no API key; without any, everybody could use the service")
        return cls([key for key in found if key])

    def __bool__(self) -> bool:
        return bool(self.keys)

    def number(self, given: str) -> int | None:
        """Which of the keys this is. Every key is compared, so that the time tells nothing."""
        wanted = given.encode("utf-8", errors="replace")
        found = None
        for number, key in enumerate(self.keys):
            if hmac.compare_digest(key, wanted):
                found = number
        return found
