"""The default English corpus: real sentences, and nothing of a held-out topic in training."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from heedful.data.documents import read_documents, read_summaries
from heedful.data.drops import Drops
from heedful.data.python_reference import (
    is_prose,
    split_sentences,
    topic_splits,
    write_topic_sentences,
    write_topic_summaries,
    write_topic_text,
)

Writer = Callable[..., dict[str, Path]]
WRITERS = [write_topic_text, write_topic_sentences, write_topic_summaries]


def sentences_of(path: Path) -> set[str]:
    """Long sentences of any of the three formats, by a cruder rule than the one under test."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        text = "\n\n".join(json.loads(line)["document"] for line in text.splitlines())
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    return {piece for block in blocks for piece in block.split(". ") if len(piece) >= 60}


@pytest.mark.parametrize("write", WRITERS)
def test_no_long_sentence_is_in_two_splits(write: Writer, tmp_path: Path) -> None:
    found = {split: sentences_of(path) for split, path in write(tmp_path, 1).items()}
    assert list(found) == ["train", "valid", "test"]
    assert min(map(len, found.values())) > 50
    for one, other in combinations(found, 2):
        assert found[one] & found[other] == set()


def test_the_splits_are_about_80_10_10_of_the_text() -> None:
    sizes = {split: sum(map(len, texts.values())) for split, texts in topic_splits().items()}
    whole = sum(sizes.values())
    assert whole > 250_000
    assert {split: size / whole for split, size in sizes.items()} == pytest.approx(
        {"train": 0.8, "valid": 0.1, "test": 0.1}, abs=0.04
    )


def test_topics_left_out_are_contained_in_a_topic_that_is_kept() -> None:
    kept = {name for texts in topic_splits().values() for name in texts}
    everything = " ".join(" ".join(topics[name].split()) for name in kept)
    for name in set(topics) - kept:
        paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", topics[name])]
        known = sum(len(paragraph) for paragraph in paragraphs if paragraph in everything)
        assert known > 0.4 * sum(map(len, paragraphs)), name


def test_the_plain_text_contains_every_topic_of_its_split_unchanged(tmp_path: Path) -> None:
    for split, path in write_topic_text(tmp_path, 1).items():
        text = path.read_text(encoding="utf-8")
        for name in topic_splits()[split]:
            assert topics[name].strip("\n") in text


def test_sentences_are_read_back_as_documents_of_at_least_two(tmp_path: Path) -> None:
    for path in write_topic_sentences(tmp_path, 1).values():
        drops = Drops()
        documents = list(read_documents(path, drops))
        assert not drops.counts
        assert len(documents) > 10
        assert all(len(document) > 1 for document in documents)
        lines = [line for document in documents for line in document]
        assert not [line for line in lines if "::=" in line or ">>>" in line or line.startswith(("|", "+-"))]
        assert sum(line.rstrip('”’")]*')[-1] in ".:!?" for line in lines) > 0.95 * len(lines)


def test_a_summary_is_the_first_sentence_of_its_document(tmp_path: Path) -> None:
    for split, path in write_topic_summaries(tmp_path, 1).items():
        drops = Drops()
        pairs = list(read_summaries(path, drops))
        assert not drops.counts
        assert len(pairs) > (400 if split == "train" else 30)
        assert len({document for document, _ in pairs}) == len(pairs)
        for document, summary in pairs:
            assert document.startswith(summary + " ")
            assert len(document) <= 1200


@pytest.mark.parametrize("write", WRITERS)
def test_seed_determines_the_order_and_count_the_training_size(write: Writer, tmp_path: Path) -> None:
    first, again, other = (write(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    for split in first:
        assert first[split].read_bytes() == again[split].read_bytes()
        assert first[split].read_bytes() != other[split].read_bytes()
        assert sorted(first[split].read_text().split()) == sorted(other[split].read_text().split())
    few = write(tmp_path / "few", 1, 3)
    assert 0 < few["train"].stat().st_size < first["train"].stat().st_size / 2
    assert few["test"].read_bytes() == first["test"].read_bytes()


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("One here.  Two\n   there!", ["One here.", "Two there!"]),
        ("See e.g. Section 3 (i.e. PEP 8). It says so.", ["See e.g. Section 3 (i.e. PEP 8).", "It says so."]),
        ('It returns "None". "x" is lost. [1] Then *y* is.', ['It returns "None".', '"x" is lost. [1]', "Then *y* is."]),
        ("A decimal-\npoint is 3.14 wide.", ["A decimal-point is 3.14 wide."]),
        ("No end", ["No end"]),
        ("  ", []),
    ],
)
def test_sentences_end_where_people_end_them(paragraph: str, sentences: list[str]) -> None:
    assert split_sentences(paragraph) == sentences


@pytest.mark.parametrize(
    ("paragraph", "prose"),
    [
        ('The "if" statement is used for conditional execution:', True),
        ("if x < y < z: print(x); print(y); print(z)", False),
        ('if_stmt ::= "if" assignment_expression ":" suite', False),
        ("| Operation | Result | Notes |", False),
        ("Compound statements\n*******************", False),
        (">>> This is a session that ends.", False),
    ],
)
def test_code_grammar_and_tables_are_not_prose(paragraph: str, prose: bool) -> None:
    assert is_prose(paragraph) is prose
