"""Real servers: `heedful serve` in a process of its own, with models of every job, reached over real sockets."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import TASKS, Trained

STARTED = re.compile(r"serving at (http://[\d.]+:\d+)")


class Server:
    """A running `heedful serve`."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self.url = self._wait()
        self.http = httpx.Client(base_url=self.url, timeout=60)

    def _wait(self) -> str:
        for _ in range(1800):
            found = STARTED.search(self.log.read_text(encoding="utf-8"))
            if found:
                return found[1]
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        raise AssertionError(f"the server did not start: {self.log.read_text(encoding='utf-8')}")

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.http.post(path, json=body, **options) if body is not None else self.http.post(path, **options)

    def ask(self, path: str, body: Any, **options: Any) -> Any:
        """The JSON of a request that must succeed."""
        answer = self.post(path, body, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}(\{{|\s)", line))

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


Start = Callable[..., Server]


@contextmanager
def started(folder: Path, *arguments: str | Path, env: dict[str, str] | None = None) -> Iterator[Server]:
    """A server with these arguments, which ends with the block."""
    log = folder / f"serve-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "heedful", "serve", *map(str, arguments), "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, text=True, env={**os.environ, **(env or {})})
    try:
        server = Server(process, log)
        yield server
        server.http.close()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def models(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of every job; translation models of three pairs of languages."""
    folder = tmp_path_factory.mktemp("models")
    found = {task: trained(task) / "best" for task in TASKS if task != "translation"}
    for name in ("en-de", "de-fr", "fr-de"):
        shutil.copytree(trained("translation") / "best", folder / name)
        config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
        source, target = name.split("-")
        config["settings"] |= {"source_language": source, "target_language": target}
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
        found[name] = folder / name
    return found


@pytest.fixture(scope="session")
def server(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of all models, with short limits so that tests can meet them."""
    limits = ["--max-characters", "5000", "--max-items", "250", "--max-body", "300000", "--max-tokens", "400"]
    named = [f"{name}={path}" for name, path in models.items()]
    with started(tmp_path_factory.mktemp("server"), *named, *limits) as running:
        yield running


@pytest.fixture(scope="session")
def server_with_keys(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that wants one of the keys `first` and `geheim`, and logs in JSON."""
    options = ["--workers", "1", "--log-json"]
    folder = tmp_path_factory.mktemp("server")
    with started(folder, f"en-de={models['en-de']}", *options, env={"HEEDFUL_API_KEYS": "first, geheim"}) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server of one's own."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(started(tmp_path, *arguments, **options))
