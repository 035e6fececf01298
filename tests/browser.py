"""A real browser for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OpenPage = Callable[..., "Page"]
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window. Of a module, because Playwright's event loop runs in this thread as long as it is open."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no chromium; on Debian: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing; pip install 'heedful[dev]'")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=chromium, args=QUIET)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open a file or an address in a fresh window, `width` pixels wide; other options are those of Browser.new_context.

    When the test ends, no page may have thrown an error, written one to the console, or asked the network for anything
    that is not on this machine.
    """
    problems: list[str] = []
    contexts = []

    def check_request(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1", "http://localhost")):
            problems.append(f"asked for {url}")

    def show(place: Path | str, width: int = 1280, **options: Any) -> Page:
        contexts.append(context := browser.new_context(viewport={"width": width, "height": 900}, **options))
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: check_request(request.url))
        page.goto(place if isinstance(place, str) else place.absolute().as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert not problems
