"""What `heedful check` finds: planted faults, in text of languages it knows nothing about."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from heedful.data.alignment import Stretch
from heedful.data.check import check, clean
from heedful.data.parallel import ParallelFiles
from heedful.errors import HeedfulError


def toy_pairs(count: int, syllables: str, seed: int = 1) -> list[tuple[str, str]]:
    """Sentences of made-up words, and their translations word by word, in another order, in another script."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("bdfgklmnprstv", k=2)) + rng.choice("aeiou") + str(n % 7) * (n % 5 == 0) for n in range(400)]
    theirs = {word: "".join(rng.choices(syllables, k=rng.randint(1, 4))) for word in words}
    pairs = []
    for _ in range(count):
        sentence = rng.choices(words, weights=[1 / (n + 5) for n in range(400)], k=rng.randint(3, 12))
        translated = [theirs[word] for word in reversed(sentence)]
        pairs.append((" ".join(sentence), (" " if syllables[0] != "日" else "").join(translated)))
    return pairs


def write(folder: Path, sources: list[str], targets: list[str]) -> ParallelFiles:
    for name, lines in (("a", sources), ("b", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ParallelFiles(folder / "a", folder / "b")


@pytest.mark.parametrize("syllables", ["abcdefgh", "가나다라마바사아자차", "日本語文字列翻訳機械"])
def test_a_lost_line_is_found_and_clean_text_gives_no_alarm(tmp_path: Path, syllables: str) -> None:
    sources, targets = map(list, zip(*toy_pairs(3000, syllables), strict=True))
    assert not check(write(tmp_path, sources, targets))[0].findings
    files = write(tmp_path, sources, targets[:1700] + targets[1701:])
    report, judge = check(files)
    (stretch,) = report.stretches
    assert abs(stretch.first - 1701) <= 2
    assert (stretch.last, stretch.shift) == (3000, -1)
    assert "has 3,000 lines but" in report.findings[0].about

    kept, left = clean(files, report, judge, tmp_path / "out")
    assert kept >= 2995
    assert left == 3000 - kept
    pairs = set(zip(sources, targets, strict=True))
    lines = [(tmp_path / "out" / name).read_text(encoding="utf-8").splitlines() for name in "ab"]
    assert len(pairs & set(zip(*lines, strict=True))) >= kept - 2
    reasons = [line.split("\t")[1] for line in (tmp_path / "out" / "left_out.tsv").read_text(encoding="utf-8").splitlines()]
    assert reasons.count("misaligned") == left


@pytest.mark.parametrize("count", [150, 2000])
def test_text_that_fits_nowhere_is_found_and_shifted_text_is_told_from_it(tmp_path: Path, count: int) -> None:
    sources, targets = map(list, zip(*toy_pairs(count, "가나다라마바사아자차"), strict=True))
    assert check(write(tmp_path, sources, [targets[-1], *targets[:-1]]))[0].stretches == [Stretch(1, count, 1)]
    half = count // 2
    for first in (0, half) if count > 1000 else (0,):
        mixed = targets[:first] + random.Random(1).sample(targets[first:], count - first)
        assert check(write(tmp_path, sources, mixed))[0].lines()[0].endswith("of the two sides do not belong together")


def test_every_kind_of_fault_is_counted_with_its_line(tmp_path: Path) -> None:
    pairs = toy_pairs(300, "가나다라마바사아자차")
    pairs[10] = (pairs[10][0], "")
    pairs[20] = (pairs[20][0], pairs[20][0] + " and it is not the other one")
    pairs[30] = ("the very same words on both sides",) * 2
    pairs[40] = pairs[39]
    pairs[50] = (pairs[50][0], "가나다 " * 200)
    pairs[60] = (pairs[60][0], "가나다 â€œ라마바")
    pairs[70] = ("a\x07b", pairs[70][1])
    report, judge = check(write(tmp_path, *map(list, zip(*pairs, strict=True))), [pairs[80][0]])
    found = {finding.kind: (finding.count, finding.line) for finding in report.findings}
    assert found == {
        "empty": (1, 11), "script": (1, 21), "copy": (1, 31), "duplicate": (1, 41), "ratio": (1, 51), "garbled": (1, 61),
        "control": (1, 71), "held-out": (1, 81),
    }  # fmt: skip
    assert json.loads(report.as_json())["pairs"] == 300
    assert judge.scripts == ("Latin", "Korean")


def test_a_line_in_the_other_language_is_found(tmp_path: Path) -> None:
    english = ["this is what you have to do with it", "the cat is in the house and the dog is not"]
    german = ["das ist was du mit dem Hund tun musst", "die Katze ist in dem Haus und der Hund ist nicht da"]
    targets = german * 60
    targets[33] = "that is the house of the other cat"
    report, judge = check(write(tmp_path, english * 60, targets))
    assert judge.languages == ("en", "de")
    assert [finding.line for finding in report.findings if finding.kind == "language"] == [34]


@pytest.mark.parametrize(("encoding", "name"), [("utf-16", "UTF-16"), ("cp949", "CP949"), ("latin-1", "CP1252")])
def test_another_encoding_is_named_with_the_command(tmp_path: Path, encoding: str, name: str) -> None:
    files = write(tmp_path, ["one line"] * 50, ["x"] * 50)
    text = "안녕하세요 저는 한국어 문장입니다\n" if name != "CP1252" else "Füße über Äpfel, größer für mich\n"
    (tmp_path / "b").write_bytes((text * 50).encode(encoding))
    with pytest.raises(HeedfulError, match=f"iconv -f {name} -t UTF-8"):
        check(files)


def test_a_shift_is_found_in_some_blocks_of_a_large_file_too(tmp_path: Path) -> None:
    sources, targets = map(list, zip(*toy_pairs(12_000, "abcdefgh"), strict=True))
    files = write(tmp_path, sources, [*targets[:7300], *targets[7301:], "x"])
    report, _ = check(files, stride=2)
    assert report.pairs == 6000
    assert [(stretch.shift, abs(stretch.first - 8001) <= 12) for stretch in report.stretches] == [(-1, True)]
    assert not check(write(tmp_path, sources, targets), stride=3)[0].stretches


def test_foreign_lines_do_not_make_a_side_of_another_script_foreign(tmp_path: Path) -> None:
    english = ["this is what you have to do with it", "the cat is in the house and the dog is not"] * 60
    _, judge = check(write(tmp_path, english, ["これは日本語の文です"] * 100 + english[:20]))
    assert judge.scripts == ("Latin", "Japanese")
    assert judge.languages == ("en", "")


def test_lines_of_a_table_that_are_no_pair_are_counted_and_listed(tmp_path: Path) -> None:
    rows = [f"{a}\t{b}" for a, b in toy_pairs(40, "abcdefgh")]
    rows[3], rows[9] = "no tab", "same words on both sides\tsame words on both sides"
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    files = ParallelFiles(tmp_path / "pairs.tsv")
    report, judge = check(files)
    assert [(finding.kind, finding.line) for finding in report.findings if finding.kind == "copy"] == [("copy", 10)]
    assert clean(files, report, judge, tmp_path / "out") == (38, 2)
    left = (tmp_path / "out" / "left_out.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[:2] for line in left] == [["4", "unreadable"], ["10", "copy"]]


def test_what_was_zipped_is_cleaned_into_a_plain_file(tmp_path: Path) -> None:
    lines = [list(side) for side in zip(*toy_pairs(40, "abcdefgh"), strict=True)]
    for name, side in zip("ab", lines, strict=True):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in side).encode()))
    files = ParallelFiles(tmp_path / "a.gz", tmp_path / "b.gz")
    assert clean(files, *check(files), tmp_path / "out") == (40, 0)
    assert (tmp_path / "out" / "a").read_text(encoding="utf-8").splitlines() == lines[0]
