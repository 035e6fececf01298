"""Looks at parallel text before anything is learned from it: what is wrong with it, how often, and where.

Read twice in order, so that files larger than memory can be checked; 16 bytes per pair are kept. Nothing is changed:
`clean` writes what is worth keeping to other files, and what it leaves out to a file beside them.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TextIO

import numpy as np

from heedful.data.alignment import FARTHEST, Sample, Stretch, misaligned
from heedful.data.drops import Drops, has_control
from heedful.data.languages import language_name, language_of
from heedful.data.lines import read_lines
from heedful.data.parallel import ParallelFiles
from heedful.data.scripts import is_foreign, is_of, language_by_words, main_script
from heedful.errors import HeedfulError

Row = tuple[str | None, str | None]
HEAD = 5000  # pairs from which script, language and usual length ratio of the sides are found
FACTOR = 4.0  # a pair whose ratio of lengths is this many times the usual one is suspicious
SHORT = 30  # characters; the ratio of shorter lines says little
COPY = 12  # characters; a shorter line that is the same on both sides may be a name or a number
GARBLED = re.compile("[ÃÂ][\u0080-\u00bf]|â€|\ufffd")
WRITTEN_IN = ("Latin", "Cyrillic", "")  # scripts of the languages that are known by their small words
BLOCK = 1000  # lines in a row that are looked at where not all are
SHARE_OF_LANGUAGE = 0.05  # of the lines; fewer whose language is recognised say nothing about the file

KINDS = {
    "lengths": "the two sides have different numbers of lines",
    "misaligned": "out of step",
    "empty": "empty on one side",
    "control": "with control characters",
    "garbled": "garbled by a wrong conversion of encodings",
    "duplicate": "that occur again",
    "copy": "not translated: the same on both sides",
    "script": "in another script than the rest of their side",
    "language": "in another language than the rest of their side",
    "ratio": f"with one side more than {FACTOR:.0f} times as long as usual",
    "held-out": "that also stand in the validation or test text",
    "side": "a whole side",
}

ONE = {  # of a single pair
    "duplicate": "that occurs again",
    "script": "in another script than the rest of its side",
    "language": "in another language than the rest of its side",
    "held-out": "that also stands in the validation or test text",
}


@dataclass
class Finding:
    """Something that is wrong: how many pairs have it, and an example."""

    kind: str
    count: int = 0
    line: int = 0  # of the example
    example: str = ""
    about: str = ""  # more than the kind says

    def describe(self) -> str:
        """One line for people."""
        if self.about:
            return self.about
        many = f"{self.count:,} pair{'s' * (self.count != 1)}"
        shown = " ".join(self.example.split())
        kind = KINDS[self.kind] if self.count != 1 else ONE.get(self.kind, KINDS[self.kind])
        return f"{many} {kind} (line {self.line:,}: “{shown[:60]}{'…' * (len(shown) > 60)}”)"


@dataclass
class Report:
    """What was found in a parallel text."""

    pairs: int = 0
    findings: list[Finding] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [finding.describe() for finding in self.findings]

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


class Judge:
    """Says what is wrong with a pair on its own, from what is usual in the first pairs."""

    def __init__(self, head: list[tuple[str, str]], held_out: Iterable[str] = ()) -> None:
        self.scripts = tuple(main_script(pair[side] for pair in head) for side in (0, 1))
        self.languages = tuple(self._language([pair[side] for pair in head], self.scripts[side]) for side in (0, 1))
        ratios = [(len(t) + 5) / (len(s) + 5) for s, t in head if s.strip() and t.strip()]
        self.usual = float(np.median(ratios)) if ratios else 1.0
        self.held_out = frozenset(hash(_plain(line)) for line in held_out)

    def _language(self, lines: list[str], script: str) -> str:
        if script not in WRITTEN_IN:  # foreign lines would be the only ones that are recognised
            return ""
        found = Counter(language for line in lines if (language := language_by_words(line)))
        best, count = found.most_common(1)[0] if found else ("", 0)
        return best if count >= max(3, SHARE_OF_LANGUAGE * len(lines)) and 2 * count > found.total() else ""

    def problem(self, source: str, target: str) -> str | None:
        """The kind of the worst problem, or None."""
        if not source.strip() or not target.strip():
            return "empty"
        if has_control(source) or has_control(target):
            return "control"
        if self.held_out and hash(_plain(source)) in self.held_out:
            return "held-out"
        if len(source) >= COPY and "".join(_plain(source).split()) == "".join(_plain(target).split()):
            return "copy"
        for text, script, language in zip((source, target), self.scripts, self.languages, strict=True):
            if not text.isascii() and GARBLED.search(text):
                return "garbled"
            if script and not is_of(script, text):
                return "script"
            if language and is_foreign(text, language):
                return "language"
        ratio = (len(target) + 5) / (len(source) + 5) / self.usual
        if max(len(source), len(target)) >= SHORT and not 1 / FACTOR < ratio < FACTOR:
            return "ratio"
        return None


def _plain(text: str) -> str:
    return text.strip().casefold()


def rows_of(files: ParallelFiles, stride: int = 1, drops: Drops | None = None) -> Iterator[Row]:
    """Both sides of every line as it stands, None where one side has ended or a line holds no pair.

    With a `stride`, of every so-manieth block of lines alone.
    """
    if files.target is None:
        rows = files.rows(drops or Drops())
    else:
        rows = zip_longest(read_lines(files.source), read_lines(files.target))
    yield from (row for line, row in enumerate(rows) if line // BLOCK % stride == 0)


def check(
    files: ParallelFiles,
    held_out: Iterable[str] = (),
    progress: Callable[[int], None] = lambda count: None,
    stride: int = 1,
) -> tuple[Report, Judge]:
    """What is wrong with a parallel text; `held_out` are the sources of validation and test.

    With a `stride`, only every so-manieth block of lines is looked at.
    """
    head = [(s, t) for (s, t), _ in zip(rows_of(files), range(HEAD), strict=False) if s is not None and t is not None]
    judge, report, sample = Judge(head, held_out), Report(), Sample()
    found = {kind: Finding(kind) for kind in KINDS}
    hashes, counts, unreadable = array("q"), [0, 0], Drops()
    for index, (source, target) in enumerate(rows_of(files, stride, unreadable)):
        number = line_of(index, stride)
        counts[0] += source is not None
        counts[1] += target is not None
        if source is None or target is None:
            continue
        report.pairs += 1
        sample.add(source, target)
        hashes.append(hash((source, target)))
        _count(found, judge.problem(source, target), number, source, target)
        if index % 1000 == 0:
            progress(1000)
    if again := repeated(hashes):
        first, text = _pair(files, stride, again[0])
        found["duplicate"] = Finding("duplicate", len(again), first, text)
    if counts[0] != counts[1]:
        names = [str(path) for path in files.paths]
        found["lengths"].count = abs(counts[0] - counts[1])
        found["lengths"].about = f"{names[0]} has {counts[0]:,} lines but {names[-1]} has {counts[1]:,}"
    report.stretches = [
        replace(s, first=line_of(s.first - 1, stride), last=line_of(s.last - 1, stride))
        for s in misaligned(sample, rows_of(files, stride))
    ]
    about = [finding for side in (0, 1) if (finding := _side(files, judge, side))]
    misplaced = [Finding("misaligned", s.last - s.first + 1, s.first, about=s.describe()) for s in report.stretches]
    about += [Finding("unreadable", unreadable.counts.total(), about=unreadable.describe())] if unreadable.counts else []
    counted = [finding for finding in found.values() if finding.count]
    unequal = found["lengths"].count > 0  # the first of the counted ones, if at all
    report.findings = [*about, *counted[:unequal], *misplaced, *counted[unequal:]]
    return report, judge


def _count(found: dict[str, Finding], kind: str | None, number: int, source: str, target: str) -> None:
    if kind is not None:
        finding = found[kind]
        finding.count += 1
        if finding.count == 1:
            finding.line, finding.example = number, f"{source[:80]} | {target[:80]}"


def line_of(index: int, stride: int) -> int:
    """The line, counted from 1, of the row of this index, counted from 0, that `rows_of` gives with this stride."""
    block, place = divmod(index, BLOCK)
    return block * stride * BLOCK + place + 1


def _pair(files: ParallelFiles, stride: int, wanted: int) -> tuple[int, str]:
    """The line and the source of a pair, counted from 0 among those that are pairs."""
    pairs = (
        (i, source) for i, (source, target) in enumerate(rows_of(files, stride)) if source is not None and target is not None
    )
    index, source = next(islice(pairs, wanted, None), (0, ""))
    return line_of(index, stride), source


def repeated(hashes: array[int]) -> list[int]:
    """The indices of the pairs that occurred before."""
    values = np.frombuffer(hashes, dtype=np.int64)
    order = np.argsort(values, kind="stable")
    again = values[order][1:] == values[order][:-1]
    return sorted(order[1:][again].tolist())


def _side(files: ParallelFiles, judge: Judge, side: int) -> Finding | None:
    """A side that is not in the language its file is named after, or that is like the other side."""
    path = files.paths[min(side, len(files.paths) - 1)]
    named, found = language_of(str(path)).partition("-")[0], judge.languages[side]
    if named and found and found != named:
        return Finding("side", about=f"{path} is named as {language_name(named)} but reads like {language_name(found)}")
    if side and found and found == judge.languages[0]:
        return Finding("side", about=f"both sides read like {language_name(found)}")
    return None


def clean(files: ParallelFiles, report: Report, judge: Judge, folder: Path) -> tuple[int, int]:
    """Write what is worth keeping to `folder`, under the names of the files; returns (pairs kept, pairs left out).

    Lines that are out of step by a few lines are paired again; all that is left out is in `left_out.tsv`, with the reason.
    """
    paths = [folder / path.name.removesuffix(".gz") for path in files.paths]
    if any(path.exists() and any(path.samefile(own) for own in files.paths) for path in paths):
        raise HeedfulError(f"{folder} holds the files that are to be cleaned; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    kept = left = 0
    seen: set[int] = set()
    handles = [open(path, "w", encoding="utf-8", newline="\n") for path in paths]  # noqa: SIM115
    try:
        with open(folder / "left_out.tsv", "w", encoding="utf-8", newline="\n") as out:
            for number, source, target in realigned(rows_of(files), report.stretches):
                if source is None or target is None:
                    kind: str | None = "misaligned" if files.target else "unreadable"
                else:
                    kind = judge.problem(source, target)
                pair = hash((source, target))
                kind = kind or ("duplicate" if pair in seen else None)
                seen.add(pair)
                if kind is None:
                    kept += 1
                    write_pair(files, handles, str(source), str(target))
                else:
                    left += 1
                    out.write("\t".join([str(number), kind, *((text or "").replace("\t", " ") for text in (source, target))]))
                    out.write("\n")
    finally:
        for handle in handles:
            handle.close()
    return kept, left


def write_pair(files: ParallelFiles, handles: Sequence[TextIO], source: str, target: str) -> None:
    """A pair in the format of its files."""
    if files.target is not None:
        handles[0].write(f"{source}\n")
        handles[1].write(f"{target}\n")
    elif files.is_json:
        handles[0].write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")
    else:
        handles[0].write(f"{source}\t{target}\n")


def realigned(rows: Iterable[Row], stretches: list[Stretch]) -> Iterator[tuple[int, str | None, str | None]]:
    """(line, source, target) with the lines of shifted stretches paired as they belong, None where there is no partner."""
    todo = iter(stretches)
    stretch = next(todo, None)
    sources: dict[int, str | None] = {}
    targets: dict[int, str | None] = {}

    def paired(line: int) -> tuple[int, str | None, str | None]:
        nonlocal stretch
        while stretch is not None and line > stretch.last:
            stretch = next(todo, None)
        shift: int | None = 0
        if stretch is not None and line >= stretch.first:
            shift = stretch.shift
        target = targets.get(line + shift) if shift is not None else None
        targets.pop(line - FARTHEST, None)
        return line, sources.pop(line), target

    last = 0
    for last, (source, target) in enumerate(rows, 1):
        sources[last], targets[last] = source, target
        if last > FARTHEST:
            yield paired(last - FARTHEST)
    for line in range(max(1, last - FARTHEST + 1), last + 1):
        if sources[line] is not None or (stretch is None or not stretch.shift):
            yield paired(line)
