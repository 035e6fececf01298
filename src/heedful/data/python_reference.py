"""The default English: the language reference that every Python carries for `help()`, as text, sentences and summaries.

It is real prose by people, about 350 KB of it, and needs no download. Topics of it repeat each other: "if" is a section
of "compound", "customization" one of "specialnames". So a topic that mostly stands in a longer one is left out, and
topics that share a sentence are a family that goes to one split as a whole; no sentence of a held-out topic is ever
trained on. Which Python it is decides the text: each version words some of it anew.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from heedful.data.splits import families, hash_of, write_splits
from heedful.errors import HeedfulError

SHARES = {"train": 0.8, "valid": 0.1, "test": 0.1}  # of the text
LONGEST_DOCUMENT = 1200  # characters of a text to summarise
COMMON_LENGTH = 40  # characters; shorter sentences, such as "For example:", belong to nobody

BLANK_LINES = re.compile(r"\n\s*\n")
UNDERLINE = re.compile(r"([*=\-~\"^])\1{2,}")
BULLET = re.compile(r"\A(\*|-|\d+\.|\[\d+\]|\(\d+\)) +")
TERM = re.compile(
    r"\A( *)(?!(?:\*|-|\d+\.|\[\d+\]|\(\d+\)) )\S.*[^.!?:\n]\n(?=\1 +\S)"
)  # a line above deeper lines that define it
LINE_END_HYPHEN = re.compile(r"(?<=\w-)\n\s*(?=\w)")
# A sentence ends with a stop, perhaps closing marks and a footnote such as [1], before something that may begin another.
SENTENCE_END = re.compile(r"""([.!?][”’")\]*]*(?:\s+\[\d+\])*)\s+(?!\[\d+\])(?=["“‘*(\[]*[A-Z0-9_]|["“*]+\w)""")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|resp|approx|no|fig|sec|[A-Z])\.$", re.IGNORECASE)


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, each on one line."""
    words = " ".join(LINE_END_HYPHEN.sub("", paragraph).split())
    sentences: list[str] = []
    begin = 0
    for end in SENTENCE_END.finditer(words):
        if not ABBREVIATION.search(words[begin : end.end(1)]):
            sentences.append(words[begin : end.end(1)])
            begin = end.end()
    return [*sentences, words[begin:]] if words[begin:] else sentences


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph is sentences, not code, grammar, a table, a heading or a signature."""
    letters = sum(character.isalpha() or character.isspace() for character in paragraph)
    return (
        re.match(r"""["“‘*(\[]*[A-Z]|["“*]+\w""", paragraph) is not None
        and re.search(r"""[.:!?][”’")\]*]*(\s+\[\d+\])*$""", paragraph) is not None
        and not re.search(r"::=|^\s*(>>>|\.\.\.|#|[|+])", paragraph, re.MULTILINE)
        and len(paragraph.split()) >= 4
        and letters >= 0.8 * len(paragraph)
    )


def _paragraphs(text: str) -> Iterator[str]:
    """What stands between blank lines, without the bullet or the defined term before it."""
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
    """Everything in a topic that is long enough to be recognised elsewhere, prose or not."""
    found = (sentence for paragraph in _paragraphs(text) for sentence in split_sentences(paragraph))
    return {sentence for sentence in found if len(sentence) >= COMMON_LENGTH}


@cache
def topic_splits() -> dict[str, dict[str, str]]:
    """Split → topic → text.

    In the order of their hashes, families go to the split that is furthest below its share of the text.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:  # some systems leave it out of their Python
        raise HeedfulError("this Python lacks its topics (pydoc_data); install the documentation part of Python") from error
    sentences: dict[str, set[str]] = {}
    known: set[str] = set()
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        own = _sentences(topics[name])
        if sum(map(len, own & known)) <= 0.5 * sum(map(len, own)):
            sentences[name] = own
            known |= own
    missing = {split: share * sum(len(topics[name]) for name in sentences) for split, share in SHARES.items()}
    splits: dict[str, dict[str, str]] = {split: {} for split in SHARES}
    for family in sorted(families(sentences), key=lambda family: hash_of(family[0])):
        split = max(missing, key=lambda split: missing[split])
        for name in family:
            splits[split][name] = topics[name].strip("\n") + "\n"
            missing[split] -= len(topics[name])
    return splits


def _shuffled(split: str, seed: int, count: int | None) -> list[str]:
    """The topics of a split in the seed's order; of the training ones, at most `count`."""
    names = sorted(topic_splits()[split])
    random.Random(f"topics {split} {seed}").shuffle(names)
    return [topic_splits()[split][name] for name in names[: count if split == "train" else None]]


def write_topic_text(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """Plain text as it stands, a topic after the other, for language modelling; at most `count` training topics."""
    return write_splits(folder, "topics", "txt", {split: "\n\n".join(_shuffled(split, seed, count)) for split in SHARES})


def write_topic_sentences(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """A sentence a line and a blank line between sections, for BERT; at most `count` training topics.

    Only prose: code, grammar and tables have no sentences. A section of one sentence has none that follows it and is
    left out.
    """
    texts: dict[str, str] = {}
    for split in SHARES:
        sections = (section for text in _shuffled(split, seed, count) for section in _sections(text))
        documents = [[line for paragraph in section for line in split_sentences(paragraph)] for section in sections]
        texts[split] = "\n".join("".join(f"{line}\n" for line in lines) for lines in documents if len(lines) > 1)
    return write_splits(folder, "topic-sentences", "txt", texts)


def write_topic_summaries(folder: Path, seed: int, count: int | None = None) -> dict[str, Path]:
    """JSONL of "document", a paragraph, and "summary", its lead; at most `count` training examples.

    Writers of a reference put what matters first, so the first sentence sums up the paragraph. It stays in the document,
    as the lead of a news article does.
    """
    texts: dict[str, str] = {}
    for split in SHARES:
        pairs: dict[str, str] = {}  # document → summary
        for text in _shuffled(split, seed, None):
            for paragraph in (paragraph for section in _sections(text) for paragraph in section):
                sentences = split_sentences(paragraph)
                document = " ".join(sentences)
                if len(sentences) > 1 and len(document) <= LONGEST_DOCUMENT:
                    pairs[document] = sentences[0]
        rows = [{"document": document, "summary": summary} for document, summary in pairs.items()]
        rows = rows[: count if split == "train" else None]
        texts[split] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return write_splits(folder, "topic-summaries", "jsonl", texts)
