"""A results file that is complete or absent: it grows under a temporary name, and the same command continues it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from heedful.errors import HeedfulError
from heedful.runtime.files import sync, write_json
from heedful.settings import JsonObject


@dataclass
class Done:
    """What has been done so far."""

    inputs: int = 0
    size: int = 0  # bytes of the output
    failed: int = 0  # number of inputs that could not be used
    loops: int = 0  # number of outputs that repeat themselves


class OutputFile:
    """Results for the lines of an input; whatever was written before the process stopped or was killed is kept."""

    def __init__(self, path: Path, wish: JsonObject) -> None:
        """`wish` is everything the output depends on. A partial file begun with a different one is thrown away."""
        if path.is_dir():
            raise HeedfulError(f"{path} is a directory; --output needs the name of a file")
        if not path.absolute().parent.is_dir():
            raise HeedfulError(f"there is no directory {path.parent} to write {path.name} into")
        self.path, self.wish = path, wish
        self.part, self.state = (path.with_name(f".{path.name}.{ending}") for ending in ("part", "part.json"))
        self.done = self._earlier()
        self.file = self.part.open("r+b" if self.done.inputs else "wb")
        self.file.truncate(self.done.size)  # drop what a killed process wrote after it last saved its state
        self.file.seek(self.done.size)

    def _earlier(self) -> Done:
        """What an earlier process with the same `wish` has done."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = json.loads(self.state.read_text(encoding="utf-8"))
            done = Done(**found["done"])
            if found["wish"] == json.loads(json.dumps(self.wish)) and self.part.stat().st_size >= done.size:
                return done
        return Done()

    def add(self, lines: Sequence[str], inputs: int, failed: int, loops: int) -> None:
        """The lines for some more inputs."""
        written = "".join(f"{line}\n" for line in lines).encode()
        self.file.write(written)
        self.file.flush()
        os.fsync(self.file.fileno())
        done = self.done
        self.done = Done(done.inputs + inputs, done.size + len(written), done.failed + failed, done.loops + loops)
        write_json(self.state, {"wish": self.wish, "done": asdict(self.done)})

    def finish(self) -> None:
        """Rename the complete file to its final name."""
        self.file.close()
        os.replace(self.part, self.path)
        self.state.unlink(missing_ok=True)
        sync(self.path.absolute().parent)
