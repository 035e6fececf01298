"""Every limit is a clean answer with a JSON body, and nobody can exhaust the service."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import Server, Start

from conftest import Run

QUICK = ["--workers", "1"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Server) -> None:
    for headers in ({}, {"Transfer-Encoding": "chunked"}):

        def body() -> Any:
            for _ in range(400):
                yield b"x" * 1000

        content: Any = body() if headers else b"x" * 400_000
        try:
            answer = server.http.post("/api/translate", content=content)
        except (httpx.WriteError, httpx.RemoteProtocolError):
            continue  # the connection was closed while we still sent, which is an answer too
        assert answer.status_code == 413
        assert "300,000" in answer.json()["error"]


@pytest.mark.slow
def test_too_many_waiting_texts_are_refused_with_a_time_to_try_again(start: Start, models: dict[str, Path]) -> None:
    server = start(f"gpt={models['language-model']}", *QUICK, "--max-queue", "3")

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            calls = [client.post("/api/generate", json={"inputs": ["the " * 4000], "length": 300}) for _ in range(30)]
            return await asyncio.gather(*calls)

    answers = asyncio.run(run())
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(int(answer.headers["Retry-After"]) >= 1 and answer.json()["error"] for answer in refused)
    assert all(answer.status_code in (200, 503) for answer in answers)
    assert sum(answer.status_code == 200 for answer in answers) >= 3


def test_a_request_that_takes_too_long_is_given_up(start: Start, models: dict[str, Path]) -> None:
    server = start(f"gpt={models['language-model']}", *QUICK, "--timeout", "0.5")
    answer = server.post("/api/generate", {"inputs": "the", "length": 2000, "count": 250})
    assert answer.status_code == 503
    assert "0.5 seconds" in answer.json()["error"]
    for _ in range(20):  # a busy machine may need more than half a second even for a short one
        answer = server.post("/api/generate", {"inputs": "the", "length": 3})
        if answer.status_code == 200:
            break
    assert answer.status_code == 200


def test_requests_per_minute_are_counted_for_each_key(start: Start, models: dict[str, Path], tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("# those of the office\nfirst\n\nsecond\n", encoding="utf-8")
    server = start(f"en-de={models['en-de']}", *QUICK, "--api-keys", keys, "--requests-per-minute", "1")

    def ask(key: str) -> httpx.Response:
        return server.post("/api/translate", {"inputs": "1"}, headers={"Authorization": f"Bearer {key}"})

    assert [ask("first").status_code for _ in range(3)] == [200, 429, 429]
    refused = ask("first")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert ask("second").status_code == 200


def test_keys(server_with_keys: Server) -> None:
    server = server_with_keys
    body = {"inputs": "1 2"}
    assert server.post("/api/translate", body).status_code == 401
    assert server.post("/api/translate", body, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert server.post("/api/translate", body, headers={"Authorization": "Bearer gehei"}).status_code == 401
    for headers in ({"Authorization": "Bearer geheim"}, {"X-API-Key": "first"}):
        assert server.post("/api/translate", body, headers=headers).status_code == 200
    for path in ("/health", "/ready", "/docs", "/openapi.json", "/languages", "/"):
        assert server.http.get(path).status_code == 200, path
    for path in ("/metrics", "/api/models", "/v1/models"):
        assert server.http.get(path).status_code == 401, path
    log = server.log.read_text(encoding="utf-8")
    assert "geheim" not in log


def test_no_key_is_in_the_log_nor_any_text(server_with_keys: Server) -> None:
    server = server_with_keys
    before = len(server.log.read_text(encoding="utf-8").splitlines())
    server.post("/api/translate", {"inputs": "4 2 4 2 4 2"}, headers={"X-API-Key": "geheim"})
    server.post("/translate", data={"q": "4 2 4 2 4 2", "source": "en", "target": "de", "api_key": "geheim"})
    server.post("/translate?api_key=geheim&q=424242", None)
    for _ in range(100):
        lines = [json.loads(line) for line in server.log.read_text(encoding="utf-8").splitlines()[before:]]
        requests = [line for line in lines if line["message"] == "request"][-3:]  # one of an earlier test may be written late
        if [line["path"] for line in requests] == ["/api/translate", "/translate", "/translate"]:
            break
        time.sleep(0.1)
    assert [line["path"] for line in requests] == ["/api/translate", "/translate", "/translate"]
    assert requests[0] | {"ms": 0, "time": ""} == {
        "time": "", "level": "info", "message": "request", "client": "127.0.0.1", "method": "POST", "path": "/api/translate",
        "status": 200, "ms": 0, "model": "en-de",
    }  # fmt: skip
    assert not {"geheim", "4 2 4 2", "424242"} & {part for part in ("geheim", "4 2 4 2", "424242") if part in str(lines)}


def test_slow_callers_cannot_exhaust_it(start: Start, models: dict[str, Path]) -> None:
    """Hundreds of connections that never finish their requests are closed in time, and others are answered meanwhile."""
    server = start(f"en-de={models['en-de']}", *QUICK, "--read-timeout", "1.5")
    host, port = server.url.removeprefix("http://").split(":")
    begin = b"POST /api/translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    openings = [b"", b"POST /api/tr", begin, begin + b"Content-Length: 1000\r\n\r\n{"]
    sockets = []
    for number in range(300):
        one = socket.create_connection((host, int(port)))
        one.sendall(openings[number % 4])
        one.settimeout(10)
        sockets.append(one)
    assert server.ask("/api/translate", {"inputs": "1 2"})["results"]
    began = time.monotonic()
    while time.monotonic() - began < 1.2:  # a byte now and then does not help
        for one in sockets[1::4]:
            with suppress(ConnectionError):
                one.send(b"x")
        time.sleep(0.3)
    for number, one in enumerate(sockets):
        rest = b""
        with suppress(ConnectionError):  # closed, which a TimeoutError would not be
            while part := one.recv(1000):
                rest += part
        if number % 4 == 3:
            assert rest.startswith(b"HTTP/1.1 408"), rest[:60]
        one.close()
    assert server.ask("/api/translate", {"inputs": "1 2"})["results"]


def test_who_does_not_take_the_answers_is_disconnected(start: Start, models: dict[str, Path]) -> None:
    """Answers that nobody reads fill the system's buffers; then the connection must not stay for ever."""
    server = start(f"en-de={models['en-de']}", *QUICK, "--read-timeout", "0.5")
    host, port = server.url.removeprefix("http://").split(":")
    sockets = []
    for _ in range(5):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect((host, int(port)))
        one.sendall(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
        sockets.append(one)
    deadline = time.monotonic() + 20
    while (running := server.metric("heedful_requests_running")) < 6 and time.monotonic() < deadline - 15:  # 1: this request
        time.sleep(0.05)
    while (running := server.metric("heedful_requests_running")) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running == 1
    for one in sockets:
        one.close()


def test_what_is_no_request_is_refused_in_json(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    endless = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(100))
    for sent, status in (
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + endless, b"431"),
        (b"GET /" + b"a" * 100_000, b"431"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, b"431"),
        (b"what is this?\r\n\r\n", b"400"),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
    ):
        with socket.create_connection((host, int(port))) as one:
            one.settimeout(10)
            answer = b""
            with suppress(ConnectionError):  # closed while we still send
                one.sendall(sent)
                while part := one.recv(1000):
                    answer += part
        if answer or status == b"400":
            assert answer.split()[1] == status, (sent[:40], answer[:200])
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


def test_every_path_can_be_asked_for_its_head(server: Server) -> None:
    for path in ("/health", "/ready", "/languages", "/v1/models", "/docs"):
        answer = server.http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert server.http.head("/translate").status_code == 405


@pytest.mark.slow
def test_connections_beyond_the_limit_are_closed_with_503(start: Start, models: dict[str, Path]) -> None:
    server = start(f"en-de={models['en-de']}", *QUICK, "--max-connections", "10")
    server.http.close()
    host, port = server.url.removeprefix("http://").split(":")
    time.sleep(0.2)
    sockets = [socket.create_connection((host, int(port))) for _ in range(14)]
    time.sleep(0.3)
    refused = 0
    for one in sockets:
        one.settimeout(0.3)
        with suppress(TimeoutError):
            refused += one.recv(100).startswith(b"HTTP/1.1 503")
        one.close()
    assert refused == 4
    time.sleep(0.3)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_answers_have_security_headers_and_name_no_software(server: Server) -> None:
    for path in ("/", "/docs", "/api/models", "/nothing", "/metrics"):
        headers = server.http.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "server" not in headers
        assert "Access-Control-Allow-Origin" not in headers


def test_cors_is_for_those_who_are_named(start: Start, models: dict[str, Path]) -> None:
    about = {"HEEDFUL_API_KEYS": "geheim"}
    server = start(f"en-de={models['en-de']}", *QUICK, "--cors", "https://example.org, https://example.com", env=about)
    for origin, allowed in (("https://example.org", True), ("https://evil.example", False)):
        for key, status in (("geheim", 200), ("wrong", 401)):  # a page can read why it is refused
            answer = server.post("/api/translate", {"inputs": "1"}, headers={"Origin": origin, "X-API-Key": key})
            assert (answer.status_code, "Access-Control-Allow-Origin" in answer.headers) == (status, allowed)
    asked = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key",
    }
    assert server.http.options("/api/translate", headers=asked).status_code == 200


@pytest.mark.slow
def test_everybody_is_warned_of_an_open_address(start: Start, models: dict[str, Path]) -> None:
    open_to_all = start(f"en-de={models['en-de']}", *QUICK, "--host", "0.0.0.0")
    assert "everybody who can reach" in open_to_all.log.read_text(encoding="utf-8")
    assert open_to_all.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere"], 1, "there is no model directory nowhere"),
        (["{model}", "{model}"], 2, "two models are called"),
        (["a b={model}"], 2, "cannot be the name of a model"),
        (["{model}", "--port", "99999"], 2, "port"),
        (["{model}", "--api-keys", "nowhere.txt"], 1, "API keys cannot be read"),
        (["{model}", "--host", "999.1.1.1"], 1, "cannot listen"),
        (["{model}", "--port", "{taken}"], 1, "choose another with --port"),
    ],
)
def test_what_cannot_be_served_is_reported(
    server: Server, models: dict[str, Path], run: Run, arguments: list[str], code: int, says: str
) -> None:
    given = [argument.format(model=models["en-de"], taken=server.url.rpartition(":")[2]) for argument in arguments]
    assert says in run("serve", *given, code=code)[1].replace("\n", " ")


def test_a_model_that_cannot_be_loaded_ends_the_service_with_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heedful", "serve", str(tmp_path), *QUICK, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "config.json" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_the_pages_work_without_a_network(server: Server, open_page: Any) -> None:
    page = open_page(f"{server.url}/docs")
    page.wait_for_selector('[data-path="/api/translate"]')
    assert page.locator(".opblock").count() > 10
    start_page = open_page(f"{server.url}/")
    assert "en-de" in start_page.inner_text("body")
