"""Labelled texts: CSV, TSV and JSONL give the same examples, and every problem is named."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import real_data
from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.errors import HeedfulError

EXAMPLES = [("a fine film", "1"), ("Grüße, „schön“", "good"), ("線を\u2028分けない", "0"), ("it 's , well , long", "not bad")]
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip)


def write(path: Path, text: str, zipped: bool = False) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


def table(rows: list[tuple[str, ...]], delimiter: str) -> str:
    if delimiter == "\t":
        return "".join("\t".join(row) + "\n" for row in rows)
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue()


def read(path: Path) -> tuple[list[tuple[str, str]], Drops]:
    drops = Drops()
    return list(read_labelled(path, drops)), drops


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt"])
@pytest.mark.parametrize("header", [(), ("text", "label"), ("label", "text"), ("Label", "id", "Sentence")])
def test_tables_read_the_same_with_any_header(name: str, header: tuple[str, ...], zipped: bool, tmp_path: Path) -> None:
    rows: list[tuple[str, ...]] = list(EXAMPLES)
    if header:
        cells = [{"text": text, "sentence": text, "label": label, "id": "7"} for text, label in EXAMPLES]
        rows = [header, *(tuple(row[column.lower()] for column in header) for row in cells)]
    content = table(rows, "," if name.endswith("csv") else "\t")
    path = write(tmp_path / (name + ".gz" * zipped), "\ufeff" + content, zipped)
    examples, drops = read(path)
    assert examples == EXAMPLES
    assert not drops.counts


def test_jsonl_labels_may_be_numbers(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "label": 1},
        {"label": "x", "text": "b", "id": 3},
        {"text": "c", "label": True},
        {"text": "d", "label": 0.5},
    ]
    path = write(tmp_path / "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read(path)[0] == [("a", "1"), ("b", "x"), ("c", "true"), ("d", "0.5")]


@settings(deadline=None, max_examples=60)
@given(examples=st.lists(st.tuples(WORDS, WORDS.map(str.strip)), min_size=1, max_size=6))
def test_what_csv_and_json_write_is_read_back(examples: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("round")
    rows = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in examples)
    assert read(write(folder / "x.jsonl", rows))[0] == examples
    assert read(write(folder / "x.csv", table([("text", "label"), *examples], ",")))[0] == examples


def test_a_quoted_csv_text_may_contain_commas_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'text,label\r\n"He said ""no"", then\r\nleft.",sad\r\nplain,glad\r\nshort\r\n')
    examples, drops = read(path)
    assert examples == [('He said "no", then\nleft.', "sad"), ("plain", "glad")]
    assert drops.first == {"with a number of columns other than 2": "x.csv line 5"}


def test_quotation_marks_in_a_tsv_are_ordinary(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", '"so-called" art\t0\n"unclosed\t1\n"all quoted"\t1\n')
    assert read(path)[0] == [('"so-called" art', "0"), ('"unclosed', "1"), ('"all quoted"', "1")]


def test_unusable_rows_are_counted_with_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", "good\t1\n\n \t1\nno label\t \nthree\t4\t5\nbell\a\t1\nalone\n")
    examples, drops = read(path)
    assert examples == [("good", "1")]
    assert drops.counts == Counter(
        {"empty": 2, "without a label": 1, "with a number of columns other than 2": 2, "with control characters": 1}
    )
    assert drops.first["empty"] == "x.tsv line 2"
    assert drops.first["with a number of columns other than 2"] == "x.tsv line 5"


def test_json_without_text_or_label_is_counted(tmp_path: Path) -> None:
    rows = [
        '{"text": "a", "label": "b"}',
        '{"text": "a"}',
        '["a", "b"]',
        '{"text": "a", "label": null}',
        '{"text": 3, "label": 1}',
    ]
    examples, drops = read(write(tmp_path / "x.jsonl", "\n".join(rows) + "\n"))
    assert examples == [("a", "b")]
    assert drops.counts == Counter({'without "text" and "label"': 4})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.tsv",
            "just text\nmore text\n",
            "no usable labelled text in {}: 2 with a number of columns other than 2 (first: x.tsv line 1)",
        ),
        ("x.csv", "a;b\nc;d\n", "no usable labelled text in {}: 2 with a number of columns other than 2 (first: x.csv line 1)"),
        ("x.tsv", "text\tlabel\n", "no usable labelled text in {}"),
        ("x.csv", 'fine,1\n"never closed,1\nmore,0\n', "{} line 2 is not CSV: unexpected end of data; check its quotation marks"),
        ("x.jsonl", "text,label\n", "{} line 1 is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("x.csv", "", "{} is empty"),
    ],
)
def test_a_file_of_another_shape_is_an_error_that_says_where(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(HeedfulError) as caught:
        read(path)
    assert str(caught.value) == message.format(path)


def test_the_error_of_one_file_does_not_mention_another(tmp_path: Path) -> None:
    drops = Drops()
    list(read_labelled(write(tmp_path / "good.tsv", "a\t1\n\n"), drops))
    bad = write(tmp_path / "bad.tsv", "\n\n")
    with pytest.raises(HeedfulError) as caught:
        list(read_labelled(bad, drops))
    assert str(caught.value) == f"no usable labelled text in {bad}: 2 empty"


@pytest.mark.parametrize(("name", "count"), [("train.tsv.gz", 6920), ("dev.tsv.gz", 872)])
def test_sst2_is_read_in_its_original_format(name: str, count: int) -> None:
    examples, drops = read(real_data("sst2") / name)
    assert len(examples) == count
    assert not drops.counts
    assert {label for _, label in examples} == {"0", "1"}
