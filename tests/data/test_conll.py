"""Tagged sentences: files with any columns, of which the first is the word and the last its tag."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from heedful.data.conll import read_conll
from heedful.data.drops import Drops
from heedful.errors import HeedfulError

SENTENCES = [(["EU", "rejects", "German", "call"], ["B-ORG", "O", "B-MISC", "O"]), (["Peter", "#"], ["B-PER", "O"])]


def read(path: Path) -> tuple[list[tuple[list[str], list[str]]], Drops]:
    drops = Drops()
    return list(read_conll(path, drops)), drops


def write(folder: Path, text: str, zipped: bool = False) -> Path:
    path = folder / ("x.conll" + ".gz" * zipped)
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("between", ["\t", " ", "  ", " NNP B-NP ", "\tNNP\t_\t"])
def test_the_first_column_is_the_word_and_the_last_its_tag(between: str, end: str, zipped: bool, tmp_path: Path) -> None:
    blocks = ["\r\n".join(word + between + tag for word, tag in zip(*sentence, strict=True)) for sentence in SENTENCES]
    path = write(tmp_path, "\ufeff" + "\r\n\r\n".join(blocks) + end, zipped)
    sentences, drops = read(path)
    assert sentences == SENTENCES
    assert not drops.counts


@pytest.mark.parametrize("between", ["\t", " "])
def test_comments_and_document_marks_are_skipped_but_a_tagged_hash_is_a_word(between: str, tmp_path: Path) -> None:
    rows = [
        "# newdoc",
        "-DOCSTART-|-X-|-X-|O",
        "# text = One two",
        "One|X|X|O",
        "#|X|X|O",
        "#tag|X|X|B-TAG",
        "",
        "# O",
        "-DOCSTART-|-X-|-X-|O",
        "two|X|X|O",
    ]
    path = write(tmp_path, "\n".join(rows).replace("|", between) + "\n")
    sentences, drops = read(path)
    assert sentences == [(["One", "#", "#tag"], ["O", "O", "B-TAG"]), (["two"], ["O"])]
    assert not drops.counts


def test_a_word_may_contain_a_no_break_space(tmp_path: Path) -> None:
    assert read(write(tmp_path, "10\u00a0000\tB-N\nkm\tO\n"))[0] == [(["10\u00a0000", "km"], ["B-N", "O"])]


def test_a_faulty_word_drops_only_its_own_sentence_once(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tO\n\nb\nc\n\nd\tX\tO\n\ne\aO\tO\n\nf\tO\n")
    sentences, drops = read(path)
    assert sentences == [(["a"], ["O"]), (["f"], ["O"])]
    assert drops.first == {
        "with a word without a tag": "x.conll line 3",
        "with a number of columns other than 2": "x.conll line 6",
        "with control characters": "x.conll line 8",
    }
    assert set(drops.counts.values()) == {1}


def test_plain_text_is_refused_as_tagged_text(tmp_path: Path) -> None:
    path = write(tmp_path, "One\ntwo\n\nthree\n")
    with pytest.raises(HeedfulError) as caught:
        read(path)
    assert str(caught.value) == f"no usable sentence in {path}: 2 with a word without a tag (first: x.conll line 1)"
