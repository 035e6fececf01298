"""Many simultaneous callers: no answer depends on other callers, nobody blocks the others, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import Server, Start

from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer

Call = tuple[str, dict[str, Any]]


def call_all(server: Server, calls: list[Call], at_once: int = 32) -> list[httpx.Response | Exception]:
    """The answers of many concurrent callers, in order."""

    async def run() -> list[Any]:
        gate = asyncio.Semaphore(at_once)
        limits = httpx.Limits(max_connections=at_once)
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

            async def one(path: str, body: dict[str, Any]) -> httpx.Response:
                async with gate:
                    return await client.post(path, json=body)

            return await asyncio.gather(*(one(*call) for call in calls), return_exceptions=True)

    return asyncio.run(run())


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(str(rng.randrange(10)) for _ in range(rng.randint(1, 9))) for _ in range(count)]


def quiet(server: Server) -> None:
    """Wait until nothing runs and nothing waits."""
    for _ in range(200):
        if server.metric("heedful_requests_running") <= 1 and server.metric("heedful_queue_length") == 0:  # 1: this request
            return
        time.sleep(0.05)
    raise AssertionError("something still runs")


def test_nobody_s_answer_depends_on_the_others(server: Server, models: dict[str, Path]) -> None:
    translator, writer = Translator.load(models["en-de"]), Writer.load(models["language-model"])
    calls: list[Call] = []
    expected: list[str] = []
    for number, text in enumerate(texts(120)):
        if number % 3 == 0:
            options: dict[str, Any] = {"length": 15, "seed": number, "temperature": 1.2}
            calls.append(("/api/generate", {"inputs": text, **options}))
            expected.append(writer.generate(text, **options))
        else:
            kinds: list[dict[str, Any]] = [{}, {"beam": 1}, {"beam": 6, "length_penalty": 1.1}, {"sample": True, "seed": number}]
            options = kinds[number % 4]
            calls.append(("/api/translate", {"inputs": text, "model": "en-de", **options}))
            expected.append(translator.translate(text, **options))
    answers = call_all(server, calls)
    found = []
    for answer in answers:
        assert isinstance(answer, httpx.Response)
        assert answer.status_code == 200, answer.text
        row = answer.json()["results"][0]
        found.append(row["text"] if "text" in row else row["translations"][0]["text"])
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    assert same == len(expected)
    assert server.metric("heedful_batch_size_count") < server.metric("heedful_batch_size_sum")  # they were batched


def test_a_long_text_does_not_hold_up_short_ones(server: Server) -> None:
    """A caller with 40 texts and one with 250 long outputs begin first; single short texts are answered long before them."""

    async def run() -> tuple[list[float], float, float]:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            begun = time.perf_counter()

            async def timed(path: str, body: dict[str, Any]) -> float:
                answer = await client.post(path, json=body)
                assert answer.status_code == 200, answer.text
                return time.perf_counter() - begun

            many = asyncio.create_task(timed("/api/translate", {"inputs": ["9 " * 60] * 40, "model": "en-de", "beam": 8}))
            long = asyncio.create_task(timed("/api/generate", {"inputs": ["the"] * 250, "length": 400}))
            await asyncio.sleep(0.15)
            short = await asyncio.gather(
                *(timed("/api/translate", {"inputs": text, "model": "en-de", "beam": 1}) for text in texts(6, seed=1)),
                *(timed("/api/generate", {"inputs": "the", "length": 5}) for _ in range(3)),
            )
            return short, await many, await long

    short, many, long = asyncio.run(run())
    assert max(short) < many
    assert max(short) < long


def test_a_caller_who_goes_away_frees_the_place(server: Server) -> None:
    quiet(server)
    with httpx.Client(base_url=server.url) as client:
        for body in ({"inputs": ["the"] * 250, "length": 400}, {"inputs": ["the"] * 250, "length": 400, "beam": 8}):
            try:
                client.post("/api/generate", json=body, timeout=0.2)
            except httpx.ReadTimeout:
                continue
            raise AssertionError("the request should take longer")
        request = {"model": "language-model", "prompt": "the", "max_tokens": 400, "stream": True}
        with client.stream("POST", "/v1/completions", json=request, timeout=30) as stream:
            next(stream.iter_lines())
    quiet(server)
    before = server.metric("heedful_batch_size_sum")
    time.sleep(0.5)
    assert server.metric("heedful_batch_size_sum") == before  # no worker goes on


def test_a_killed_worker_is_replaced_and_nothing_is_lost(start: Start, models: dict[str, Path]) -> None:
    server = start(f"en-de={models['en-de']}", f"gpt={models['language-model']}", "--workers", "2", "--timeout", "300")
    translator, writer = Translator.load(models["en-de"]), Writer.load(models["language-model"])
    calls: list[Call] = [("/api/translate", {"inputs": text, "beam": 8}) for text in texts(150)]
    calls += [("/api/generate", {"inputs": "the", "length": 60, "seed": seed}) for seed in range(50)]
    expected = translator.translate(texts(150), beam=8)
    expected += [writer.generate("the", length=60, seed=seed) for seed in range(50)]

    async def run() -> list[Any]:
        async with httpx.AsyncClient(base_url=server.url, timeout=300) as client:
            work = [asyncio.create_task(client.post(path, json=body)) for path, body in calls]
            for _ in range(3):
                await asyncio.sleep(0.3)
                for pid in server.workers()[:1]:
                    os.kill(pid, signal.SIGKILL)
            return await asyncio.gather(*work, return_exceptions=True)

    answers = asyncio.run(run())
    right = refused = 0
    for answer, wanted in zip(answers, expected, strict=True):
        assert isinstance(answer, httpx.Response), repr(answer)
        if answer.status_code == 503:
            refused += 1
            continue
        assert answer.status_code == 200, answer.text
        row = answer.json()["results"][0]
        assert (row["text"] if "text" in row else row["translations"][0]["text"]) == wanted
        right += 1
    assert right > refused, Counter(answer.text for answer in answers if answer.status_code == 503)
    assert server.metric("heedful_worker_deaths_total") >= 2
    for _ in range(100):
        if len(server.workers()) == 2 and server.http.get("/ready").status_code == 200:
            break
        time.sleep(0.2)
    assert len(server.workers()) == 2
    assert server.ask("/api/translate", {"inputs": "1 2"})["results"]


@pytest.mark.slow
def test_a_stream_goes_on_when_its_worker_is_killed(start: Start, models: dict[str, Path]) -> None:
    server = start(f"gpt={models['language-model']}", "--workers", "1")
    body = {"model": "gpt", "prompt": "the", "max_tokens": 300, "temperature": 1.0, "seed": 4}
    whole = server.ask("/v1/completions", body)["choices"][0]["text"]
    parts: list[str] = []
    with server.http.stream("POST", "/v1/completions", json={**body, "stream": True}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                parts.append(json.loads(line[6:])["choices"][0]["text"])
                if len(parts) == 5:
                    os.kill(server.workers()[0], signal.SIGKILL)
    assert "".join(parts) == whole


def test_sigterm_answers_what_has_begun_and_refuses_the_rest(start: Start, models: dict[str, Path]) -> None:
    server = start(f"gpt={models['language-model']}", "--workers", "1", "--grace", "120", "--timeout", "300")
    workers = server.workers()

    async def run() -> tuple[httpx.Response, Any]:
        async with httpx.AsyncClient(base_url=server.url, timeout=300) as client:
            await client.get("/health")  # a connection that stays open
            begun = asyncio.create_task(client.post("/api/generate", json={"inputs": ["the"] * 250, "length": 1500, "beam": 4}))
            await asyncio.sleep(0.3)
            assert not begun.done()
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            late = await asyncio.gather(client.post("/api/generate", json={"inputs": "the"}), return_exceptions=True)
            return await begun, late[0]

    begun, late = asyncio.run(run())
    assert begun.status_code == 200
    assert len(begun.json()["results"]) == 250
    assert isinstance(late, httpx.ConnectError | httpx.RemoteProtocolError | httpx.ReadError) or late.status_code == 503
    assert server.process.wait(30) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_what_does_not_end_in_its_time_is_refused_when_the_service_stops(start: Start, models: dict[str, Path]) -> None:
    server = start(f"gpt={models['language-model']}", "--workers", "1", "--grace", "1")

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            begun = asyncio.create_task(client.post("/api/generate", json={"inputs": ["the"] * 250, "length": 2000, "beam": 16}))
            await asyncio.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            return await begun

    answer = asyncio.run(run())
    assert (answer.status_code, answer.json()) == (503, {"error": "the service has stopped"})
    assert answer.headers["retry-after"]
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log.read_text(encoding="utf-8")


def test_a_changed_model_is_reloaded_without_dropping_requests(start: Start, models: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    shutil.copytree(models["en-de"], folder)
    server = start(folder, "--workers", "2")
    assert server.ask("/api/translate", {"inputs": "1 2"})["model"] == "served"
    config = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config.replace('"target_language": "de"', '"target_language": "nl"'), encoding="utf-8")
    answered = 0
    deadline = time.monotonic() + 30
    while "nl" not in {language["code"] for language in server.http.get("/languages").json()}:
        assert server.post("/api/translate", {"inputs": "1 2"}).status_code == 200
        answered += 1
        assert time.monotonic() < deadline
    assert answered > 3
    (folder / "config.json").write_text(config, encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    while "de" not in {language["code"] for language in server.http.get("/languages").json()}:
        assert time.monotonic() < deadline + 30
        time.sleep(0.05)
    (folder / "config.json").write_text("{", encoding="utf-8")  # a broken one changes nothing
    server.process.send_signal(signal.SIGHUP)
    time.sleep(2)
    assert server.ask("/api/translate", {"inputs": "1 2"})["results"]
    assert "is not reloaded" in server.log.read_text(encoding="utf-8")
