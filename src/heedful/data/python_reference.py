"""The default English corpus: the language reference that ships with Python for `help()`, as text, sentences and summaries.

It is about 350 KB of prose and needs no download. Its topics repeat each other: "if" is a section of
"compound", and "customization" one of "specialnames". So a topic that is mostly contained in a longer one is left out, and
topics that share a sentence go to the same split as a group; no sentence of a held-out topic is ever trained on. The text
depends on the version of Python.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from heedful.data.splits import connected_groups, hash_of, write_splits
from heedful.errors import HeedfulError

TOPIC_SPLIT_FRACTIONS = {"train": 0.8, "valid": 0.1, "test": 0.1}  # of the text
LONGEST_PARAGRAPH = 1200  # characters of a text to summarise
COMMON_LENGTH = 40  # characters; shorter sentences, such as "For example:", do not link topics

BLANK_LINES = re.compile(r"\n\s*\n")
UNDERLINE = re.compile(r"([*=\-~\"^])\1{2,}")
BULLET = re.compile(r"\A(\*|-|\d+\.|\[\d+\]|\(\d+\)) +")
TERM = re.compile(
    r"\A( *)(?!(?:\*|-|\d+\.|\[\d+\]|\(\d+\)) )\S.*[^.!?:\n]\n(?=\1 +\S)"
)  # a line above deeper lines that define it
LINE_END_HYPHEN = re.compile(r"(?<=\w-)\n\s*(?=\w)")
# A sentence ends with . ! or ?, optional closing marks and a footnote such as [1], followed by a possible sentence start.
SENTENCE_END = re.compile(r"""([.!?][”’")\]*]*(?:\s+\[\d+\])*)\s+(?!\[\d+\])(?=["“‘*(\[]*[A-Z0-9_]|["“*]+\w)""")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|resp|approx|no|fig|sec|[A-Z])\.$", re.IGNORECASE)


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, each without line breaks."""
    words = " ".join(LINE_END_HYPHEN.sub("", paragraph).split())
    sentences: list[str] = []
    begin = 0
    for end in SENTENCE_END.finditer(words):
        if not ABBREVIATION.search(words[begin : end.end(1)]):
            sentences.append(words[begin : end.end(1)])
            begin = end.end()
    return [*sentences, words[begin:]] if words[begin:] else sentences


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph consists of sentences: not code, grammar, a table, a heading or a signature."""
    letters = sum(character.isalpha() or character.isspace() for character in paragraph)
    return (
        re.match(r"""["“‘*(\[]*[A-Z]|["“*]+\w""", paragraph) is not None
        and re.search(r"""[.:!?][”’")\]*]*(\s+\[\d+\])*$""", paragraph) is not None
        and not re.search(r"::=|^\s*(>>>|\.\.\.|#|[|+])", paragraph, re.MULTILINE)
        and len(paragraph.split()) >= 4
        and letters >= 0.8 * len(paragraph)
    )


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs between blank lines, without a leading bullet or defined term."""
    for paragraph in BLANK_LINES.split(text):
        if paragraph.strip():
            yield BULLET.sub("", TERM.sub("", paragraph.strip("\n")).strip())


def _sections(text: str) -> Iterator[list[str]]:
    """The prose paragraphs under each heading."""
    section: list[str] = []
    for paragraph in _paragraphs(text):
        if UNDERLINE.fullmatch(paragraph.splitlines()[-1]):
            if section:
                yield section
            section = []
        elif is_prose(paragraph):
            section.append(paragraph)
    if section:
        yield section


def _sentences(text: str) -> set[str]:
    """All sentences of a topic, prose or not, that are long enough to identify repeated text."""
    found = (sentence for paragraph in _paragraphs(text) for sentence in split_sentences(paragraph))
    return {sentence for sentence in found if len(sentence) >= COMMON_LENGTH}


@cache
def topic_splits() -> dict[str, dict[str, str]]:
    """Split → topic → text.

    In the order of their hashes, groups of topics go to the split that lacks most of its fraction of the text.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:  # some distributions package it separately
        raise HeedfulError("this Python lacks its help topics (pydoc_data); install Python's documentation package") from error
    sentences: dict[str, set[str]] = {}
    known: set[str] = set()
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        own = _sentences(topics[name])
        if sum(map(len, own & known)) <= 0.5 * sum(map(len, own)):
            sentences[name] = own
            known |= own
    size = sum(len(topics[name]) for name in sentences)
    missing = {split: fraction * size for split, fraction in TOPIC_SPLIT_FRACTIONS.items()}
    splits: dict[str, dict[str, str]] = {split: {} for split in TOPIC_SPLIT_FRACTIONS}
    for group in sorted(connected_groups(sentences), key=lambda group: hash_of(group[0])):
        split = max(missing, key=lambda split: missing[split])
        for name in group:
            splits[split][name] = topics[name].strip("\n") + "\n"
            missing[split] -= len(topics[name])
    return splits


def _shuffled(split: str, seed: int, count: int | None) -> list[str]:
    """The topics of a split in the seed's order; of the training ones, at most `count`."""
    names = sorted(topic_splits()[split])
    random.Random(f"topics {split} {seed}").shuffle(names)
    return [topic_splits()[split][name] for name in names[: count if split == "train" else None]]


def write_topic_text(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """Plain text, one topic after the other, for language modelling; at most `count` training topics."""
    texts = {split: "\n\n".join(_shuffled(split, seed, count)) for split in TOPIC_SPLIT_FRACTIONS}
    return write_splits(folder, "topics", "txt", texts)


def write_topic_sentences(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """One sentence per line and a blank line between sections, for BERT; at most `count` training topics.

    Only prose is kept: code, grammar and tables have no sentences. A section of one sentence is left out, since it has no
    next sentence.
    """
    texts: dict[str, str] = {}
    for split in TOPIC_SPLIT_FRACTIONS:
        sections = (section for text in _shuffled(split, seed, count) for section in _sections(text))
        documents = [[line for paragraph in section for line in split_sentences(paragraph)] for section in sections]
        texts[split] = "\n".join("".join(f"{line}\n" for line in lines) for lines in documents if len(lines) > 1)
    return write_splits(folder, "topic-sentences", "txt", texts)


def write_topic_summaries(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """JSONL of "document", a paragraph, and "summary", its first sentence; at most `count` training examples.

    A reference manual puts what matters first, so the first sentence summarises the paragraph. It stays in the document,
    like the lead of a news article.
    """
    texts: dict[str, str] = {}
    for split in TOPIC_SPLIT_FRACTIONS:
        pairs: dict[str, str] = {}  # document → summary
        for text in _shuffled(split, seed, None):
            for paragraph in (paragraph for section in _sections(text) for paragraph in section):
                sentences = split_sentences(paragraph)
                document = " ".join(sentences)
                if len(sentences) > 1 and len(document) <= LONGEST_PARAGRAPH:
                    pairs[document] = sentences[0]
        rows = [{"document": document, "summary": summary} for document, summary in pairs.items()]
        rows = rows[: count if split == "train" else None]
        texts[split] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return write_splits(folder, "topic-summaries", "jsonl", texts)
