"""Random traffic against `heedful serve` for minutes, with callers who go away at random: does anything leak?

    python benchmarks/soak.py MODEL [MODEL …] --minutes 10

Prints memory, open files and threads of every process of the service once per interval. In the first third, caches fill; of the
other two, memory may grow by at most 3 %, files not at all; nothing may still run or wait, and every answer
must be 200, or 503 with a time to try again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from measuring import Transcript, own_bytes, with_children

WORDS = "1 2 3 4 May June 2021 the sun is over rivers and stones , . ! ?".split()


async def caller(url: str, verbs: list[tuple[str, str]], rng: random.Random, end: float, statuses: Counter[str]) -> None:
    """Ask for something, wait for it or go away, again and again."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while time.monotonic() < end:
            name, verb = rng.choice(verbs)
            text = " ".join(rng.choices(WORDS, k=int(rng.expovariate(0.1)) + 1))
            body: dict[str, Any] = {"model": name, "inputs": [text] * rng.choice([1, 1, 1, 5])}
            path = f"/api/{verb}"
            if verb == "generate":
                body |= {"length": rng.randint(1, 80), "seed": rng.randrange(100)}
            if verb == "generate" and rng.random() < 0.4:
                path, body = "/v1/completions", {"model": name, "prompt": text, "max_tokens": 60, "stream": True}
            try:
                if rng.random() < 0.3:  # goes away soon
                    async with asyncio.timeout(rng.expovariate(20)):
                        await client.post(path, json=body)
                else:
                    statuses[str((await client.post(path, json=body)).status_code)] += 1
            except TimeoutError:
                statuses["gone"] += 1
            await asyncio.sleep(rng.expovariate(50))


def state_of(pid: int) -> tuple[float, int, int]:
    """Megabytes, open files and threads of a service's processes."""
    found = with_children(pid)
    size = files = threads = 0
    for one in found:
        with contextlib.suppress(OSError):
            size += own_bytes(one)
            files += len(os.listdir(f"/proc/{one}/fd"))
            threads += len(os.listdir(f"/proc/{one}/task"))
    return size / 1e6, files, threads


async def soak(url: str, pid: int, callers: int, minutes: float, report: Transcript) -> tuple[list[Any], Counter[str]]:
    """The states over time, and how requests ended."""
    models = httpx.get(f"{url}/api/models").json()["models"]
    verbs = [(model["name"], model["verbs"][0]) for model in models]
    verbs = [(name, verb) for name, verb in verbs if verb not in ("answer", "fill")]
    statuses: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes
    tasks = [asyncio.create_task(caller(url, verbs, random.Random(number), end, statuses)) for number in range(callers)]
    states = []
    while time.monotonic() < end:
        await asyncio.sleep(min(15.0, 60 * minutes / 20))
        states.append(state_of(pid))
        report.say(f"{states[-1][0]:,.0f} MB, {states[-1][1]} files, {states[-1][2]} threads, {dict(statuses)}")
    await asyncio.gather(*tasks)
    await asyncio.sleep(3)
    return states, statuses


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=24)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    report = Transcript(options.output, measures=False)
    port = 19000 + os.getpid() % 1000
    command = [sys.executable, "-m", "heedful", "serve", *options.models, "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(3000):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/ready").status_code == 200:
                    break
            time.sleep(0.2)
        states, statuses = asyncio.run(soak(url, process.pid, options.callers, options.minutes, report))
        metrics = httpx.get(f"{url}/metrics").text
        running, waiting, deaths = (
            float(re.findall(rf"^{name} (\S+)", metrics, re.MULTILINE)[0])
            for name in ("heedful_requests_running", "heedful_queue_length", "heedful_worker_deaths_total")
        )
        rows = sum(float(value) for value in re.findall(r"^heedful_batch_size_sum\S* (\S+)", metrics, re.MULTILINE))
        time.sleep(2)
        later = httpx.get(f"{url}/metrics").text
        rows_later = sum(float(value) for value in re.findall(r"^heedful_batch_size_sum\S* (\S+)", later, re.MULTILINE))
        idle = state_of(process.pid)
    finally:
        process.terminate()
        process.wait()
    third = max(1, len(states) // 3)
    first, last = (statistics.median(state[0] for state in part) for part in (states[third:-third], states[-third:]))
    report.say(f"requests {dict(statuses)}; worker deaths {deaths:.0f}")
    report.say(f"memory of the second third {first:,.0f} MB, of the last {last:,.0f} MB: {last / first - 1:+.1%}")
    report.say(f"open files while running {max(s[1] for s in states)}, afterwards {idle[1]}; threads afterwards {idle[2]}")
    report.say(f"still running {running - 1:.0f}, waiting {waiting:.0f}, rows stepped afterwards {rows_later - rows:.0f}")
    unexpected = {status: count for status, count in statuses.items() if status not in ("200", "503", "gone")}
    wrong = [
        *([f"answers {unexpected}"] if unexpected else []),
        *(["memory grew"] if last > 1.03 * first else []),
        *(["something still runs"] if running > 1 or waiting or rows_later > rows else []),
        *(["a worker died"] if deaths else []),
    ]
    report.say("flat: nothing leaked" if not wrong else f"NOT flat: {', '.join(wrong)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
