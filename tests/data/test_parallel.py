"""Pairs from the user's files: every layout gives the same pairs, and every problem is named."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.data.drops import Drops
from heedful.data.lines import read_lines
from heedful.data.parallel import Pair, ParallelFiles
from heedful.errors import HeedfulError

PAIRS: list[Pair] = [
    ("Ein Mann steht auf einer Leiter.", "A man stands on a ladder."),
    ("Grüße aus Köln — „schön“", "greetings from Cologne"),
    ("  zwei  Leerzeichen ", "two spaces "),
    ("線を\u2028分けない", "not\u2028a new line"),
    ("👩‍👩‍👧", "family"),
]
LAYOUTS = ["two files", "tsv", "jsonl"]


def write(path: Path, content: bytes, zipped: bool = False) -> Path:
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


def lines(texts: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def corpus(folder: Path, layout: str, pairs: list[Pair], zipped: bool = False) -> ParallelFiles:
    end = ".gz" if zipped else ""
    if layout == "two files":
        source = write(folder / f"text.de{end}", lines([source for source, _ in pairs]), zipped)
        return ParallelFiles(source, write(folder / f"text.en{end}", lines([target for _, target in pairs]), zipped))
    if layout == "tsv":
        return ParallelFiles(write(folder / f"pairs.tsv{end}", lines([f"{s}\t{t}" for s, t in pairs]), zipped))
    rows = [json.dumps({"source": s, "target": t}, ensure_ascii=index % 2 == 0) for index, (s, t) in enumerate(pairs)]
    return ParallelFiles(write(folder / f"pairs.jsonl{end}", lines(rows), zipped))


def read(files: ParallelFiles) -> tuple[list[Pair], Drops]:
    drops = Drops()
    return list(files.read(drops)), drops


def error_of(files: ParallelFiles) -> str:
    with pytest.raises(HeedfulError) as caught:
        read(files)
    return str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_layout_gives_the_same_pairs(layout: str, zipped: bool, tmp_path: Path) -> None:
    pairs, drops = read(corpus(tmp_path, layout, PAIRS, zipped))
    assert pairs == PAIRS
    assert not drops.counts
    assert drops.describe() == ""


def test_gzip_is_recognised_by_its_content_not_its_name(tmp_path: Path) -> None:
    source = write(tmp_path / "text.de", lines(["eins", "zwei"]), zipped=True)
    target = write(tmp_path / "text.en.gz", lines(["one", "two"]))
    assert read(ParallelFiles(source, target))[0] == [("eins", "one"), ("zwei", "two")]


def test_several_gzip_members_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n") + gzip.compress(b"c\td\n"))
    assert read(ParallelFiles(path))[0] == [("a", "b"), ("c", "d")]


@settings(deadline=None, max_examples=100)
@given(pairs=st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=8))
def test_every_json_value_is_kept_or_counted(pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> None:
    found, drops = read(corpus(tmp_path_factory.mktemp("json"), "jsonl", pairs))
    assert len(found) + sum(drops.counts.values()) == len(pairs)
    remaining = iter(pairs)
    assert all(pair in remaining for pair in found)  # in order, unchanged


@pytest.mark.parametrize(("left", "right"), [(1200, 1), (3, 4), (4, 3), (1, 1200)])
def test_files_of_different_lengths_name_both_counts(left: int, right: int, tmp_path: Path) -> None:
    source = write(tmp_path / "text.de", lines(["ja"] * left))
    target = write(tmp_path / "text.en", lines(["yes"] * right))
    message = error_of(ParallelFiles(source, target))
    assert f"text.de has {left:,} lines" in message
    assert f"text.en has {right:,}" in message
    assert "aligned" in message


@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_file_is_named(side: int, tmp_path: Path) -> None:
    paths = [tmp_path / "here.txt", tmp_path / "here.txt"]
    write(paths[0], b"text\n")
    paths[side] = tmp_path / "absent.txt"
    assert error_of(ParallelFiles(paths[0], paths[1])) == f"there is no file {tmp_path / 'absent.txt'}"
    paths[side] = tmp_path / "here.txt" / "inside"
    write(tmp_path / "here.txt", b"text\n")
    assert error_of(ParallelFiles(paths[0], paths[1])) == f"there is no file {tmp_path / 'here.txt' / 'inside'}"


@pytest.mark.parametrize("name", ["text.tsv", "text.jsonl", "text.tsv.gz"])
def test_an_empty_file_is_an_error_that_says_so(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, b"", zipped=name.endswith(".gz"))
    assert error_of(ParallelFiles(path)) == f"{path} is empty"
    other = write(tmp_path / "other", b"text\n")
    assert error_of(ParallelFiles(other, path)) == f"{path} is empty"


def test_a_directory_is_an_error_that_says_so(tmp_path: Path) -> None:
    assert error_of(ParallelFiles(tmp_path)) == f"{tmp_path} is a directory; a text file is needed"


@pytest.mark.parametrize("damage", ["cut", "flipped", "trailing", "header"])
def test_a_damaged_gzip_file_is_named(damage: str, tmp_path: Path) -> None:
    whole = gzip.compress(lines([f"{number}\tzeile {number}" for number in range(3000)]))
    content = {
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:-8] + bytes(4) + whole[-4:],
        "trailing": whole + b"garbage",
        "header": whole[:4],
    }[damage]
    path = write(tmp_path / "pairs.tsv.gz", content)
    assert f"{path} is a damaged gzip file" in error_of(ParallelFiles(path))


@pytest.mark.parametrize("zipped", [False, True])
def test_a_single_line_of_invalid_utf8_is_named_with_its_byte(zipped: bool, tmp_path: Path) -> None:
    content = "gut\nschön\n".encode("latin-1") + "größer\nkälter\n".encode()
    path = write(tmp_path / "latin.txt", content, zipped)
    message = error_of(ParallelFiles(path, path))
    assert message == f"{path} line 2 is not valid UTF-8 (byte 4 is 0xf6); fix or remove that line"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognised(codec: str, tmp_path: Path) -> None:
    path = write(tmp_path / "windows.txt", "\ufeffschön\nund gut\n".encode(codec))
    assert error_of(ParallelFiles(path, path)).startswith(
        f"{path} is not UTF-8; it looks like UTF-16. Convert it: iconv -f UTF-16"
    )


def test_utf16_without_a_byte_order_mark_is_never_read_as_text(tmp_path: Path) -> None:
    path = write(tmp_path / "windows.tsv", "one\ttwo\nthree\tfour\n".encode("utf-16-le"))
    assert f"{path} is not UTF-8; it looks like UTF-16LE" in error_of(ParallelFiles(path))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x0b", "\x0c", "\x1c"])
def test_control_characters_drop_the_pair_and_are_counted(layout: str, character: str, tmp_path: Path) -> None:
    pairs = [("a", "b"), (f"x{character}y", "c"), ("d", f"{character}e"), ("f", "g")]
    found, drops = read(corpus(tmp_path, layout, pairs))
    assert found == [("a", "b"), ("f", "g")]
    assert drops.counts == {"with control characters": 2}
    assert "line 2" in drops.describe()
    assert drops.describe().startswith("2 dropped: 2 with control characters")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_lines_are_dropped_and_counted(layout: str, tmp_path: Path) -> None:
    pairs = [("a", "b"), ("", ""), ("c", ""), ("", "d"), (" \u3000", "e"), ("f", "g")]
    found, drops = read(corpus(tmp_path, layout, pairs))
    assert found == [("a", "b"), ("f", "g")]
    assert drops.counts == {"empty": 4}
    assert "line 2" in drops.first["empty"]


def test_a_table_row_with_another_number_of_columns_is_dropped_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", b"a\tb\nonly one\nc\td\te\n\nf\tg\n")
    found, drops = read(ParallelFiles(path))
    assert found == [("a", "b"), ("f", "g")]
    assert drops.describe() == "3 dropped: 3 with a number of columns other than 2 (first: pairs.tsv line 2)"


def test_windows_line_ends_and_a_byte_order_mark_are_removed(tmp_path: Path) -> None:
    source = write(tmp_path / "text.de", b"\xef\xbb\xbfeins\r\nzwei\r\n")
    target = write(tmp_path / "text.en", b"one\ntwo\n")
    assert read(ParallelFiles(source, target))[0] == [("eins", "one"), ("zwei", "two")]
    table = write(tmp_path / "pairs.tsv", b"\xef\xbb\xbfeins\tone\r\nzwei\ttwo\r\n")
    assert read(ParallelFiles(table))[0] == [("eins", "one"), ("zwei", "two")]
    rows = write(tmp_path / "pairs.jsonl", b'\xef\xbb\xbf{"source": "eins", "target": "one"}\r\n')
    assert read(ParallelFiles(rows))[0] == [("eins", "one")]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1e", "\r"])
def test_only_a_newline_ends_a_line(separator: str, tmp_path: Path) -> None:
    path = write(tmp_path / "text.txt", f"one{separator}two\nthree\n".encode())
    assert list(read_lines(path)) == [f"one{separator}two", "three"]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_last_line_without_newline_counts(zipped: bool, tmp_path: Path) -> None:
    source = write(tmp_path / "text.de", b"eins\nzwei", zipped)
    target = write(tmp_path / "text.en", b"one\ntwo\n")
    assert read(ParallelFiles(source, target))[0] == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize("bad", ["{", "{'source': 'a'}", "a\tb", '{"source": "a"} x', "[" * 100_000])
def test_a_line_that_is_not_json_is_named(bad: str, tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", lines(['{"source": "a", "target": "b"}', bad]))
    assert f"{path} line 2 is not JSON" in error_of(ParallelFiles(path))


def test_json_of_the_wrong_shape_is_dropped_and_counted(tmp_path: Path) -> None:
    rows = ["[1, 2]", "3", "null", '"text"', "{}", '{"source": "a"}', '{"source": 1, "target": "b"}',
            '{"source": "a", "target": null}', '{"source": ["a"], "target": "b"}']  # fmt: skip
    path = write(tmp_path / "pairs.jsonl", lines([*rows, '{"source": "a", "target": "b", "more": 1}']))
    found, drops = read(ParallelFiles(path))
    assert found == [("a", "b")]
    assert drops.counts == {'without the strings "source" and "target"': len(rows)}


def test_a_lone_surrogate_is_replaced_and_a_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", rb'{"source": "a\ud83d b", "target": "c\ud83d\ude00"}' + b"\n")
    assert read(ParallelFiles(path))[0] == [("a? b", "c😀")]


def test_a_tab_inside_aligned_lines_is_ordinary(tmp_path: Path) -> None:
    path = write(tmp_path / "text.txt", b"a\tb\n")
    assert read(ParallelFiles(path, path))[0] == [("a\tb", "a\tb")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("zipped", [False, True])
def test_a_pipe_can_be_read_like_a_file(zipped: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = lines(["one", "two"])
    writer = threading.Thread(target=write, args=(tmp_path / "pipe", content, zipped), daemon=True)
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == ["one", "two"]
    writer.join(10)
