"""Lines in groups: the same every time where all of them are there, and none lost where reading fails."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from heedful.cli.lines import LINES_OF_FILE, groups_of_lines
from heedful.errors import HeedfulError, UsageError


def test_arguments_and_files_make_the_same_groups_every_time(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(2 * LINES_OF_FILE + 10)]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    expected = [lines[:LINES_OF_FILE], lines[LINES_OF_FILE : 2 * LINES_OF_FILE], lines[2 * LINES_OF_FILE :]]
    for _ in range(5):
        assert list(groups_of_lines(lines, None)) == expected
        assert list(groups_of_lines(None, tmp_path / "lines")) == expected


def test_what_came_before_a_damaged_part_is_not_lost(tmp_path: Path) -> None:
    content = gzip.compress("".join(f"line {number} {number**9}\n" for number in range(20_000)).encode())
    (tmp_path / "lines.gz").write_bytes(content[: len(content) // 2])
    seen: list[str] = []

    def read() -> None:
        for group in groups_of_lines(None, tmp_path / "lines.gz"):
            seen.extend(group)

    with pytest.raises(HeedfulError, match=r"lines\.gz"):
        read()
    assert len(seen) > 1000
    assert seen == [f"line {number} {number**9}" for number in range(len(seen))]


def test_a_file_that_is_missing_is_named_and_one_source_is_enough(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="absent"):
        list(groups_of_lines(None, tmp_path / "absent"))
    with pytest.raises(UsageError, match="give text or --input, not both"):
        list(groups_of_lines(["text"], tmp_path / "file"))
