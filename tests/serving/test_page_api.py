"""The explorer page of a server: small at first, weights only when asked for, and only for those who may use the models."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import httpx
from servers import Server

from browser import OpenPage
from heedful.page.model_file import header_of

FIRST_VIEW = 300_000  # bytes


def test_the_first_view_is_small_and_has_no_weights(server: Server, open_page: OpenPage) -> None:
    sizes: dict[str, int] = {}
    page = open_page("about:blank")
    page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", 0))}))
    page.goto(server.url)
    page.wait_for_function("globalThis.heedfulPage")
    assert 0 < sum(sizes.values()) <= FIRST_VIEW
    assert not [url for url in sizes if "/page/models/" in url]


def test_the_served_page_runs_a_model_in_the_browser(server: Server, open_page: OpenPage) -> None:
    page = open_page(server.url)
    page.wait_for_function("globalThis.heedfulPage")
    found = page.evaluate("""async () => {
      const { app } = await globalThis.heedfulPage;
      const model = await app.host.open("en-de");
      return (await model.translate("1 2 3")).translations[0].text;
    }""")
    told = server.ask("/api/translate", {"model": "en-de", "inputs": ["1 2 3"]})
    assert found == told["results"][0]["translations"][0]["text"]


def test_every_model_is_described_and_can_be_fetched(server: Server, models: dict[str, Path]) -> None:
    cards: list[dict[str, Any]] = server.http.get("/page/models.json").json()["models"]
    assert [card["name"] for card in cards] == list(models)
    for card in cards:
        assert not card["problem"]
        assert card["parameters"] > 0
    answer = server.http.get(cards[0]["url"])
    header = header_of(gzip.decompress(answer.content))
    assert (header["name"], header["kind"]) == (cards[0]["name"], cards[0]["kind"])
    again = server.http.get(cards[0]["url"], headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_files_are_compressed_and_asked_for_once(server: Server) -> None:
    plain = server.http.get("/page/engine/index.js", headers={"Accept-Encoding": "identity"})
    packed = server.http.get("/page/engine/index.js")
    assert plain.text == packed.text
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-type"].startswith("text/javascript")
    assert packed.headers["cache-control"] == "no-cache"
    assert server.http.get("/page/engine/index.js", headers={"If-None-Match": packed.headers["etag"]}).status_code == 304
    assert server.http.head("/").status_code == 200


def test_only_files_of_the_page_are_served(server: Server) -> None:
    for path in ("model_file.py", "__init__.py", "engine/README.md", "../app.py", "%2e%2e/serving/app.py", "engine", "", "x.js"):
        answer = server.http.get(f"/page/{path}")
        assert answer.status_code == 404, path
    for path in ("nothing.bin", "%2e%2e.bin", "en-de"):
        assert server.http.get(f"/page/models/{path}").status_code == 404, path


def test_the_page_may_not_load_anything_from_elsewhere(server: Server) -> None:
    for path in ("/", "/page/main.js"):
        policy = server.http.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "unsafe-eval" not in policy


def test_keys_protect_weights_and_samples(server_with_keys: Server) -> None:
    def get(path: str, key: str = "") -> httpx.Response:
        return server_with_keys.http.get(path, headers={"Authorization": f"Bearer {key}"} if key else {})

    assert get("/").status_code == 200
    assert get("/page/main.js").status_code == 200
    (card,) = get("/page/models.json").json()["models"]
    assert (card["samples"], card["labels"]) == ([], [])
    assert get("/page/models/en-de.bin").status_code == 401
    assert get("/page/models/en-de.bin", "wrong").status_code == 401
    assert get("/page/models/en-de.bin", "geheim").status_code == 200
