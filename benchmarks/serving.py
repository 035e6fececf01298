"""How many requests per second `heedful serve` answers, and how soon, beside a server that translates one text at a time.

    python benchmarks/serving.py --model runs/dates --input docs/dates.txt

Every server has the same weights and runs as a process of its own, reached over real sockets by callers in another process:
each sends its next request when the last one is answered. The server for comparison is what a tutorial shows: FastAPI and
uvicorn around `translator.translate(text)`, all cores for one text at a time. LibreTranslate, from an environment of its own,
is measured with a package of the same model, written by `heedful export --to argos`, and the model's beam:

    python -m venv lt && lt/bin/pip install libretranslate
    python benchmarks/serving.py --model RUN --input FILE --argos RUN.argosmodel --libretranslate lt/bin

Servers take turns in every round; numbers are medians over the rounds.

"direct" is `translator.translate(text)` in Python, without a server. The last line is for machines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.pipelines import load_pipeline
from heedful.pipelines.model_directory import find_directory
from measuring import Transcript, own_bytes, with_children

TUTORIAL = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
import uvicorn
from fastapi import FastAPI
import heedful

translator = heedful.load(sys.argv[1])
app, thread = FastAPI(), ThreadPoolExecutor(1)  # one thread: PyTorch has its own

@app.get("/ready")
def ready():
    return {}

@app.post("/api/translate")
async def translate(body: dict):
    text = await asyncio.get_running_loop().run_in_executor(thread, translator.translate, body["inputs"])
    return {"results": [text]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""


@dataclass
class Measured:
    """What one server did for so many callers."""

    requests: float  # per second
    p50: float  # seconds
    p95: float
    p99: float
    megabytes: float
    errors: int


@dataclass(frozen=True)
class Served:
    """How a server is started and asked."""

    command: list[str]  # {port} is put in
    path: str = "/api/translate"
    ready: str = "/ready"
    body: str = '{"inputs": %s}'
    environment: dict[str, str] = field(default_factory=dict)


def servers_of(options: argparse.Namespace, folder: Path) -> dict[str, Served]:
    """Name → server."""
    serve = ["-m", "heedful", "serve", str(options.model), "--port", "{port}", "--max-queue", "100000"]
    found = {
        "heedful": Served([sys.executable, *serve, "--workers", str(options.workers)]),
        "one at a time": Served([sys.executable, "-c", TUTORIAL, str(options.model), "{port}"]),
    }
    if options.argos:
        pipeline: Any = load_pipeline(find_directory(options.model))
        places = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("DATA", "CONFIG", "CACHE")}
        environment = {
            **places,
            "ARGOS_PACKAGES_DIR": str(folder / "packages"),
            "ARGOS_BEAM_SIZE": str(pipeline.beam),
            "ARGOS_COMPUTE_TYPE": "float32",
            "https_proxy": "http://127.0.0.1:9",  # it looks for more packages when it has few
        }
        install = "import sys; from argostranslate import package; package.install_from_path(sys.argv[1])"
        command = [str(options.libretranslate / "python"), "-c", install, str(options.argos.resolve())]
        subprocess.run(command, env={**os.environ, **environment}, check=True, stderr=subprocess.DEVNULL)
        languages = json.dumps({"source": pipeline.source_language, "target": pipeline.target_language})
        arguments = ["--port", "{port}", "--threads", "64", "--disable-web-ui"]
        found["LibreTranslate"] = Served(
            [str((options.libretranslate / "libretranslate").absolute()), *arguments],
            "/translate",
            "/languages",
            f'{languages[:-1]}, "q": %s}}',
            environment,
        )
    return found


@contextmanager
def running(name: str, server: Served, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running server, ready for requests."""
    command = [part.format(port=port) if part == "{port}" else part for part in server.command]
    environment = {**os.environ, **server.environment}
    where = folder if server.environment else None
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=where, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 120
        while asyncio.run(status_of(port, server.ready)) != 200:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait()


def answer_of(port: int, server: Served, text: str) -> str:
    """What a server answers to a text."""
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{server.path}", (server.body % json.dumps(text)).encode(), head)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())[:300]


async def status_of(port: int, path: str) -> int:
    """The status of a path, or 0."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readline()
        writer.close()
        return int(head.split()[1])
    except (OSError, IndexError, ValueError):
        return 0


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """One request on an open connection; its status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    await reader.readexactly(length)
    return int(head.split(None, 2)[1])


def request_of(server: Served, text: str) -> bytes:
    """The bytes of a request."""
    body = (server.body % json.dumps(text)).encode()
    head = f"POST {server.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def call(port: int, bodies: list[bytes], callers: int, seconds: float) -> tuple[list[float], int, float]:
    """Latencies and errors of callers who ask without a pause, and how long it took; the first fifth is warm-up."""
    latencies: list[float] = []
    errors = 0
    begin = time.perf_counter() + seconds / 4
    end = begin + seconds

    async def caller(number: int) -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number * 37
        while (start := time.perf_counter()) < end:
            try:
                status = await ask(reader, writer, bodies[at % len(bodies)])
            except (OSError, asyncio.IncompleteReadError):
                errors += 1
                return
            done = time.perf_counter()
            if begin <= done <= end:
                latencies.append(done - start)
                errors += status != 200
            at += 1
        writer.close()

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return latencies, errors, seconds


def callers_process(port: int, bodies: list[bytes], callers: int, seconds: float, answer: Any) -> None:
    """The callers, in a process of their own."""
    answer.send(asyncio.run(call(port, bodies, callers, seconds)))


def measure(process: subprocess.Popen[bytes], port: int, bodies: list[bytes], callers: int, seconds: float) -> Measured:
    """One server with so many callers."""
    peak = 0.0
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.2):
            with suppress(OSError):  # a process has just ended
                peak = max(peak, sum(own_bytes(pid) for pid in with_children(process.pid)) / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    ours, theirs = multiprocessing.Pipe()
    client = multiprocessing.get_context("spawn").Process(target=callers_process, args=(port, bodies, callers, seconds, theirs))
    client.start()
    latencies, errors, took = ours.recv()
    client.join()
    stop.set()
    watcher.join()
    ordered = sorted(latencies) or [float("nan")]

    def percentile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Measured(len(latencies) / took, percentile(0.5), percentile(0.95), percentile(0.99), peak, errors)


def direct(model: Path, texts: list[str], count: int = 100) -> float:
    """The median time of a call in Python, in a process of its own, as a caller of a server would have it."""
    script = (
        "import heedful, sys, json, time, statistics\n"
        "t = heedful.load(sys.argv[1]); texts = json.loads(sys.argv[2]); times = []\n"
        "for i in range(int(sys.argv[3]) + 20):\n"
        "    start = time.perf_counter(); t.translate(texts[i % len(texts)]); times.append(time.perf_counter() - start)\n"
        "print(statistics.median(times[20:]))"
    )
    command = [sys.executable, "-c", script, str(model), json.dumps(texts), str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a translation model")
    parser.add_argument("--input", type=Path, required=True, help="texts, one per line")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="heedful's worker processes; 0: one per core")
    parser.add_argument("--argos", type=Path, help="the model as a package of Argos Translate")
    parser.add_argument("--libretranslate", type=Path, help="the folder of the programs libretranslate and its python")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    options = parser.parse_args()
    if (options.argos is None) != (options.libretranslate is None):
        parser.error("LibreTranslate needs both --argos and --libretranslate")
    texts = [line for line in options.input.read_text(encoding="utf-8").splitlines() if line.strip()]
    report = Transcript(options.output)
    temporary = tempfile.TemporaryDirectory()
    folder = Path(temporary.name)
    servers = servers_of(options, folder)
    names = list(servers)
    found: dict[tuple[str, int], list[Measured]] = {}
    lone: list[float] = []
    for number in range(1, options.rounds + 1):
        lone.append(direct(options.model, texts))
        report.say(f"round {number}: direct call in Python {1000 * lone[-1]:.1f} ms")
        for position, name in enumerate(names):
            port = 18000 + os.getpid() % 1000 + position
            bodies = [request_of(servers[name], text) for text in texts]
            with running(name, servers[name], port, folder) as process:
                if number == 1:  # that all of them do the same work
                    report.say(f"{name}: {texts[0]!r} becomes {answer_of(port, servers[name], texts[0])}")
                for callers in options.callers:
                    one = measure(process, port, bodies, callers, options.seconds)
                    found.setdefault((name, callers), []).append(one)
                    speed = f"{one.requests:,.0f} requests/s, p50 {1000 * one.p50:,.1f} ms"
                    report.say(f"round {number}: {name}, {callers} callers: {speed}")

    def median(name: str, callers: int, field: str) -> float:
        return statistics.median(getattr(one, field) for one in found[name, callers])

    head = ["callers", "server", "requests/s", "p50 ms", "p95 ms", "p99 ms", "p99 / p50", "peak MB", "errors"]
    rows = []
    for callers in options.callers:
        for name in names:
            times = [1000 * median(name, callers, field) for field in ("p50", "p95", "p99")]
            numbers = [f"{median(name, callers, 'requests'):,.0f}"]
            numbers += ["none in time" if math.isnan(value) else f"{value:,.1f}" for value in times]
            errors = str(sum(one.errors for one in found[name, callers]))
            spread = f"{times[2] / times[0]:.1f}"
            rows.append([str(callers), name, *numbers, spread, f"{median(name, callers, 'megabytes'):,.0f}", errors])
    report.table(head, rows)
    report.say(f"direct call in Python: {1000 * statistics.median(lone):.1f} ms")
    many = 64 if 64 in options.callers else options.callers[-1]
    throughput = median("heedful", many, "requests") / median("one at a time", many, "requests")
    p99 = median("heedful", many, "p99") / median("heedful", many, "p50")
    alone = median("heedful", options.callers[0], "p50") / statistics.median(lone)
    report.say(f"ratio throughput{many}={throughput:.2f} p99/p50={p99:.2f} lone={alone:.2f}")


if __name__ == "__main__":
    main()
