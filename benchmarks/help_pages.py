"""A real language pair that no recipe was tuned on: paragraphs of LibreOffice's help in two languages.

    python benchmarks/help_pages.py /usr/share/libreoffice/help/en-US /usr/share/libreoffice/help/fr pairs

The folders are those of Debian's packages libreoffice-help-en-us and libreoffice-help-fr (or another language). Both have
the same pages, whose paragraphs have the same ids, so the alignment is exact. Some pages are held out for validation and
test; held-out paragraphs that also occur on a training page are left out, and so are paragraphs that are the same in both
languages (code, names) or longer than --words words.
"""

from __future__ import annotations

import argparse
import random
from html.parser import HTMLParser
from pathlib import Path

HELD_OUT = 0.05  # fraction of the pages for validation, and the same for test
BLOCKS = ("p", "h1", "h2", "h3", "h4", "h5", "h6")


class Paragraphs(HTMLParser):
    """The text of every paragraph and heading of a page that has an id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.name: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS:
            self.name = dict(attributes).get("id")

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self.name = None

    def handle_data(self, data: str) -> None:
        if self.name is not None:
            self.texts[self.name] = self.texts.get(self.name, "") + data


def paragraphs(path: Path) -> dict[str, str]:
    """Id → text on one line, for every paragraph of a page."""
    return {name: " ".join(text.split()) for name, text in Paragraphs(path.read_text(encoding="utf-8")).texts.items()}


def pairs_of_pages(source: Path, target: Path, words: int) -> list[list[tuple[str, str]]]:
    """The aligned paragraphs of each page that exists in both folders."""
    pages = []
    for path in sorted(source.rglob("*.html")):
        other = target / path.relative_to(source)
        if not other.exists():
            continue
        here, there = paragraphs(path), paragraphs(other)
        pairs = [(text, there[name]) for name, text in here.items() if there.get(name)]
        pages.append([(a, b) for a, b in pairs if a and a != b and max(len(a.split()), len(b.split())) <= words])
    return pages


def divide(pages: list[list[tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    """Split whole pages into train, val and test; every source occurs once, in one split."""
    random.Random(1).shuffle(pages)
    few = int(HELD_OUT * len(pages))
    parts: dict[str, list[tuple[str, str]]] = {}
    seen: set[str] = set()
    for name, some in (("train", pages[2 * few :]), ("val", pages[few : 2 * few]), ("test", pages[:few])):
        parts[name] = list({source: target for page in some for source, target in page if source not in seen}.items())
        seen |= {source for source, _ in parts[name]}
    return parts


def main() -> None:
    """Write train, val and test as two files each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--words", type=int, default=60)
    arguments = parser.parse_args()
    pages = pairs_of_pages(arguments.source, arguments.target, arguments.words)
    if not any(pages):
        parser.error(f"{arguments.source} and {arguments.target} have no common page with common paragraph ids")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, pairs in divide(pages).items():
        for ending, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            (arguments.output / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
