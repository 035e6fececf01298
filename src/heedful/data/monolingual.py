"""Plain text in one language in addition to pairs: chooses its usable lines, and makes pairs by translating them.

The translations are kept in small files, each complete or absent, so that an interrupted run continues with the next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.data.drops import Drops, reason_to_drop
from heedful.data.lines import read_lines
from heedful.data.parallel import Pair, ParallelFiles
from heedful.data.prepare import Facts, Reporter, prepare_once
from heedful.data.splits import hash_of
from heedful.errors import HeedfulError
from heedful.runtime.files import write_json, write_text
from heedful.settings import Json

CHUNK = 1000  # lines per file of translations
LINES_PER_PAIR = 20  # more plain text would drown the pairs and take long to translate
FEWEST = 20_000  # lines that may be used however few pairs there are
DONE = "done.json"  # written beside the translations once they are complete
Translate = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class SyntheticPairs:
    """Pairs with one side written by a model: files of translations, used like a parallel corpus."""

    files: tuple[Path, ...]
    target: None = None

    @property
    def paths(self) -> list[Path]:
        return list(self.files)

    def read(self, drops: Drops) -> Iterator[Pair]:
        for path in self.files:
            yield from ParallelFiles(path).read(drops)


def choose_lines(plain: Path, known: Iterable[str], pairs: int, folder: Path, reporter: Reporter) -> None:
    """Write the usable lines of plain text to `folder`, unless that has been done: no line twice, and none of the `known`
    texts, which are in the pairs already."""

    def make(temporary: Path) -> Facts:
        drops, seen = Drops(), {hash_of(text.strip()) for text in known}
        tick, lines = reporter.track("looking at the plain text", None), []
        for number, line in enumerate(read_lines(plain), 1):
            tick(1)
            text, where = line.strip(), f"{plain.name} line {number}"
            reason = reason_to_drop(text)
            value = hash_of(text)
            if reason is None and value in seen:
                reason = "that are in the pairs, or occur twice"
            if reason:
                drops.add(reason, where)
            else:
                seen.add(value)
                lines.append(text)
        if not lines:
            raise HeedfulError(f"no usable line in {plain}: {drops.describe()}")
        most = max(FEWEST, LINES_PER_PAIR * pairs)
        used = sorted(lines, key=hash_of)[:most]  # so that any first part of them is a random choice
        cut = f" of {len(lines):,}, a random choice, because there are only {pairs:,} pairs" if len(lines) > most else ""
        reporter.say(f"plain text: {len(used):,} lines{cut}" + (f"; {drops.describe()}" if drops.counts else ""))
        (temporary / "lines.json").write_text(json.dumps(used, ensure_ascii=False), encoding="utf-8")
        return {"summary": f"{len(used):,} lines of plain text"}

    settings: dict[str, Json] = {"plain": str(plain), "pairs": pairs}
    prepare_once(settings, [plain], folder, reporter, make)


def chosen_lines(folder: Path) -> list[str]:
    """What `choose_lines` wrote to `folder`."""
    lines: list[str] = json.loads((folder / "lines.json").read_text(encoding="utf-8"))
    return lines


def translate_lines(
    folder: Path,
    translate: Translate,
    swapped: bool,
    output: Path,
    reporter: Reporter,
    seconds: float | None = None,
    most: int | None = None,
) -> None:
    """Translate the lines that `choose_lines` wrote to `folder` into files in `output`, continuing after those that exist.

    `swapped`: the translation is the source of the pair, and the line its target. Stops after `seconds`, or `most` lines.
    """
    if (output / DONE).exists():
        return
    started = time.monotonic()
    lines = chosen_lines(folder)[:most]
    output.mkdir(exist_ok=True)
    tick, done = reporter.track("translating the plain text", len(lines)), 0
    for number, start in enumerate(range(0, len(lines), CHUNK)):
        if number and seconds is not None and time.monotonic() - started > seconds:
            reporter.say(f"plain text: {done:,} lines are translated, which is what the time allows")
            break
        chunk = lines[start : start + CHUNK]
        path = output / f"{number:06}.jsonl"
        if not path.exists():
            pairs = zip(chunk, translate(chunk), strict=True)
            sides = ("target", "source") if swapped else ("source", "target")
            rows = (json.dumps(dict(zip(sides, pair, strict=True)), ensure_ascii=False) for pair in pairs)
            write_text(path, "".join(f"{row}\n" for row in rows))
        done += len(chunk)
        tick(len(chunk))
    write_json(output / DONE, {"lines": done})


def translations(folder: Path) -> tuple[Path, ...]:
    """The files of translations, in order; raises an error if they are not complete."""
    if not (folder / "translations" / DONE).exists():
        raise HeedfulError(f"{folder} has no complete translations of the plain text; run the same `heedful train` command again")
    return tuple(sorted((folder / "translations").glob("*.jsonl")))


def lines_translated(folder: Path) -> int:
    """How many lines of plain text a helper's run has translated."""
    path = folder / "translations" / DONE
    return int(json.loads(path.read_text(encoding="utf-8"))["lines"]) if path.exists() else 0
