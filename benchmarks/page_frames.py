"""How smooth the explorer page is: the time between frames while the pointer moves over a sentence of 60 tokens, in Chromium.

    python benchmarks/page_frames.py runs/en-de --output page_frames.txt

For every drawing that follows the pointer it prints the median, the 99th percentile and the longest time between two frames.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from heedful.page.model_file import pack_model
from heedful.page.standalone import standalone_page
from heedful.pipelines import load_pipeline
from heedful.pipelines.model_directory import find_directory
from measuring import Transcript

SECONDS = 4.0
PLACES = {
    "lines": ("view=attention&mode=lines&layer=1&head=1", ".links .words.queries"),
    "lines of all heads": ("view=attention&mode=lines&layer=1&head=0", ".links .words.queries"),
    "heat map": ("view=attention&mode=map&layer=1&head=1", ".large .cells"),
    "four matrices of the flow": ("view=flow&layer=1&head=1", ".stage-scores .cells >> nth=0"),
}
TOKENS = "heedfulPage.then(async ({app}) => Object.values((await app.look({})).sequences)[0].tokens.length)"
RECORD = """() => {
  globalThis.frames = [];
  let last = performance.now();
  const next = now => { frames.push(now - last); last = now; recording = requestAnimationFrame(next); };
  let recording = requestAnimationFrame(now => { last = now; recording = requestAnimationFrame(next); });
  globalThis.stop = () => { cancelAnimationFrame(recording); return frames; };
}"""


def frames_of(page: Any, selector: str) -> list[float]:
    """Milliseconds between frames while the pointer wanders over an element."""
    element = page.locator(selector).first
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    page.evaluate(RECORD)
    for step in range(int(SECONDS * 60)):
        share = abs((step * 0.013) % 2 - 1)
        across = 0.3 + 0.4 * abs((step * 0.031) % 2 - 1)
        page.mouse.move(box["x"] + box["width"] * across, box["y"] + 4 + (box["height"] - 8) * share)
        page.wait_for_timeout(1000 / 60)
    found: list[float] = page.evaluate("stop()")
    return found


def main() -> None:
    """Measure and print."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--output", type=Path, help="a copy of what is printed")
    parser.add_argument("--text", default="", help="what to type; by default 58 words of one letter")
    options = parser.parse_args()
    pipeline = load_pipeline(find_directory(options.model))
    text = options.text or " ".join("abcdefghijklmnopqrstuvwxyz"[number % 26] for number in range(58))
    transcript = Transcript(options.output)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(standalone_page([pack_model(pipeline, options.model.name)]), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        transcript.say(f"Chromium {browser.version}, software rendering, a window of 1280 × 900")
        transcript.say(f"{'drawing':<28}{'tokens':>8}{'frames':>8}{'median':>10}{'99 %':>10}{'longest':>10}  ms")
        for name, (values, selector) in PLACES.items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{file.as_uri()}#lang=en&text={quote(text)}&part=encoder&stack=encoder&{values}")
            page.wait_for_selector(selector, timeout=120_000)
            page.wait_for_timeout(1500)
            tokens = page.evaluate(TOKENS)
            found = sorted(frames_of(page, selector))
            transcript.say(
                f"{name:<28}{tokens:>8}{len(found):>8}{statistics.median(found):>10.1f}"
                f"{found[int(0.99 * (len(found) - 1))]:>10.1f}{found[-1]:>10.1f}"
            )
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
