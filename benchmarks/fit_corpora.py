"""Corpora of different size, language and domain, made from what a Debian system has, for `benchmarks/fit.py`.

    python benchmarks/fit_corpora.py /path/to/multi30k/tok corpora

- `multi30k`, and random subsets of 1,000, 3,000 and 10,000 pairs of it, with its own validation and test files
- `catalogues-LANGUAGE`: messages of programs and their translations, from the gettext catalogues (`.mo`) that are installed
- `manuals-LANGUAGE`: paragraphs of manual pages in English and in translation, from pages whose two versions have the same
  requests in the same order, as `po4a` leaves them

Manuals are there with the packages `manpages-de`, `manpages-fr` and `manpages-ja`; catalogues come with programs. A corpus for
which there is too little is left out. Whole catalogues or pages are held out, and a source that also stands in a held-out part
is left out of training.
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import random
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

Pairs = list[tuple[str, str]]
SUBSETS = (1_000, 3_000, 10_000)
LONGEST = 60  # words, or characters / 4, of either side
CATALOGUES, MANUALS = Path("/usr/share/locale"), Path("/usr/share/man")
TEXT_REQUESTS = {"B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "SH", "SS", "P", "PP", "TP", "IP", "br", "sp", "nf", "fi"}
ESCAPES = [
    (re.compile(r"\\f(\[\w*\]|\(..|.)"), ""), (re.compile(r"\\\((?:em|en)|\\-"), "-"), (re.compile(r"\\\(aq|\\\(cq"), "'"),
    (re.compile(r"\\[|&^/,%:]|\\s[-+]?\d"), ""), (re.compile(r"\\e"), r"\\"),
    (re.compile(r"\\\*?\((?:[BFlrcd]q|F[oc]|aq)"), '"'), (re.compile(r"\\\(ss"), "ß"),
    (re.compile(r"\\ |\\~"), " "),
]  # fmt: skip
ACCENT = re.compile(r"\\\((['`:^~,])(\w)")  # \(:a is ä
ACCENTS = {"'": "\u0301", "`": "\u0300", ":": "\u0308", "^": "\u0302", "~": "\u0303", ",": "\u0327"}


def unzipped(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8", "replace").split("\n")[:-1]


def one_line(text: str) -> str:
    return " ".join(text.split())


def is_short(text: str) -> bool:
    return max(len(text.split()), len(text) / 6) <= LONGEST


def messages(path: Path) -> Pairs:
    """The translated messages of one catalogue, without the marks of keyboard shortcuts."""
    try:
        with path.open("rb") as file:
            catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # there is no public list
    except (OSError, UnicodeError, ValueError):
        return []
    found = [(one_line(k.replace("_", "")), one_line(v.replace("_", ""))) for k, v in catalogue.items() if isinstance(k, str)]
    return [(k.rpartition("\4")[2], v) for k, v in found if k and v]


def paragraphs(path: Path) -> list[tuple[str, str]]:
    """(kind, text) of the parts of a manual page: what stands between requests, and what stands in requests for text."""
    found: list[tuple[str, str]] = []
    text: list[str] = []

    def close() -> None:
        found.append(("text", one_line(" ".join(text))))
        text.clear()

    for line in unzipped(path):
        for pattern, plain in ESCAPES:
            line = pattern.sub(plain, line)
        line = ACCENT.sub(lambda found: unicodedata.normalize("NFC", found[2] + ACCENTS[found[1]]), line)
        request = re.match(r"[.']\s*(\w+)(.*)", line)
        if request and request[1] in ("B", "I", "BR", "RB", "BI", "IB", "IR", "RI"):
            text.append(request[2].replace('"', ""))
        elif request and request[1] in TEXT_REQUESTS:
            close()
            found.append((request[1], ""))
            if request[1] in ("SH", "SS"):
                text.append(request[2])
                close()
        elif not line.strip():
            close()
        elif not line.startswith((".", "'")):
            text.append(line)
    close()
    return [(kind, words) for kind, words in found if kind != "text" or words]


def manual(source: Path, target: Path) -> Pairs:
    """The paragraphs of a page and its translation, section by section where the two have the same structure."""
    pairs: Pairs = []
    for left, right in zip(sections(source), sections(target), strict=False):
        if [kind for kind, _ in left] == [kind for kind, _ in right]:
            pairs += [(a, b) for (_, a), (_, b) in zip(left, right, strict=True) if a and b]
    return pairs


def sections(path: Path) -> list[list[tuple[str, str]]]:
    """The parts of a page, divided at its headings."""
    found: list[list[tuple[str, str]]] = [[]]
    for kind, words in paragraphs(path):
        if kind == "SH":
            found.append([])
        found[-1].append((kind, words))
    return found


def divide(groups: Iterable[Pairs]) -> dict[str, Pairs]:
    """Train, val and test; whole groups are held out, and every source occurs once, in one of the three."""
    groups = [pairs for pairs in groups if pairs]
    random.Random(1).shuffle(groups)
    total = sum(map(len, groups))
    parts: dict[str, dict[str, str]] = {"val": {}, "test": {}, "train": {}}
    for pairs in groups:
        part = next((name for name in ("val", "test") if len(parts[name]) < min(1000, total // 12)), "train")
        room = 2000 if part != "train" else None
        usable = [(a, b) for a, b in pairs if a != b and is_short(a) and is_short(b) and not any(a in p for p in parts.values())]
        parts[part] |= dict(usable[:room])
    return {name: list(found.items()) for name, found in parts.items()}


def write(folder: Path, parts: dict[str, Pairs]) -> None:
    if not all(parts.values()):
        print(f"{folder.name}: left out, there is too little text", flush=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        for side, index in (("source", 0), ("target", 1)):
            (folder / f"{name}.{side}").write_text("".join(f"{pair[index]}\n" for pair in pairs), encoding="utf-8")
    print(f"{folder.name}: {', '.join(f'{len(pairs):,} {name}' for name, pairs in parts.items())}", flush=True)


def multi30k(folder: Path, output: Path) -> None:
    """Multi30K and its subsets."""

    def pairs(name: str) -> Pairs:
        sides = [unzipped(folder / f"{name}.{code}.gz") for code in ("en", "de")]
        return list(zip(*sides, strict=True))

    train, held_out = pairs("train"), {"val": pairs("val"), "test": pairs("test_2016_flickr")}
    write(output / "multi30k", {"train": train, **held_out})
    for size in SUBSETS:
        write(output / f"multi30k-{size}", {"train": random.Random(size).sample(train, size), **held_out})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("multi30k", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--languages", default="de,fr,ko,ja")
    given = parser.parse_args()
    multi30k(given.multi30k, given.output)
    for code in given.languages.split(","):
        files = sorted((CATALOGUES / code / "LC_MESSAGES").glob("*.mo"))
        write(given.output / f"catalogues-{code}", divide(messages(path) for path in files))
        pages = [(MANUALS / page.relative_to(MANUALS / code), page) for page in sorted((MANUALS / code).glob("man*/*.gz"))]
        write(given.output / f"manuals-{code}", divide(manual(a, b) for a, b in pages if a.exists() and not b.is_symlink()))


if __name__ == "__main__":
    main()
