"""Documents and summaries from the user's files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from heedful.data.documents import read_documents, read_summaries
from heedful.data.drops import Drops
from heedful.errors import HeedfulError


@pytest.mark.parametrize("zipped", [False, True])
def test_blank_lines_separate_documents_however_many(zipped: bool, tmp_path: Path) -> None:
    content = "\ufeff\r\nOne.\r\n  Two. \r\n\r\n \r\nThree.\r\n\r\n".encode()
    path = tmp_path / "text.txt"
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert list(read_documents(path, Drops())) == [["One.", "Two."], ["Three."]]


def test_the_last_document_needs_no_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("One.\n\nTwo.")
    assert list(read_documents(path, Drops())) == [["One."], ["Two."]]


def test_a_line_with_control_characters_is_counted_and_does_not_end_the_document(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"One.\nbroken\0line\nTwo.\n")
    drops = Drops()
    assert list(read_documents(path, drops)) == [["One.", "Two."]]
    assert drops.first == {"with control characters": "text.txt line 2"}


def test_a_file_of_blank_lines_has_no_document(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n \n\n")
    with pytest.raises(HeedfulError, match=r"no usable document in .*text\.txt"):
        list(read_documents(path, Drops()))


def test_summaries_may_have_several_lines_and_incomplete_ones_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    rows = [
        {"document": "Much happened.\nAll of it today.", "summary": "Much happened.", "id": 7},
        {"document": "Much happened.", "summary": 5},
        {"document": " ", "summary": "Nothing."},
        {"document": "A\u0007bell.", "summary": "A bell."},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    drops = Drops()
    assert list(read_summaries(path, drops)) == [("Much happened.\nAll of it today.", "Much happened.")]
    assert drops.first == {
        'without the strings "document" and "summary"': "news.jsonl line 2",
        "empty": "news.jsonl line 3",
        "with control characters": "news.jsonl line 4",
    }


def test_a_file_without_any_summary_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    path.write_text('{"text": "a", "summary": "b"}\n')
    with pytest.raises(HeedfulError) as caught:
        list(read_summaries(path, Drops()))
    assert str(caught.value) == (
        f'no usable document with a summary in {path}: 1 without the strings "document" and "summary" (first: news.jsonl line 1)'
    )


def test_a_line_that_is_not_json_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    path.write_text('{"document": "a", "summary": "b"}\n{"document": \n')
    with pytest.raises(HeedfulError, match=r"news\.jsonl line 2 is not JSON"):
        list(read_summaries(path, Drops()))
