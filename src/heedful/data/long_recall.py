"""Long recall: the end of a document of thousands of words asks for something stated at its beginning.

`… saby amber=7 tuko … rilo coral=3 … (thousands of words) … mipo amber?` has the label 7. The keys with their digits stand in
the first eighth of the document, so that nothing near the question reveals the answer: to do better than guessing, a model must
carry information across seven eighths of the document. Nothing is downloaded.

Training documents have one to four keys and all lengths from 8 words to the longest; each octave has 0.7 times as many words
as the one below it (in documents of fewer than 32 words, the keys are among the first four). So most documents are short: a
batch has hundreds of questions there, enough to learn how a question finds its answer, where a batch of one long document says
almost nothing. The fewer long ones teach to find it among thousands of words. Held-out documents all have the full length and
four keys.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from heedful.data.splits import write_splits
from heedful.errors import UsageError

KEYS = "amber cedar coral ebony garnet jade opal topaz".split()
DIGITS = "0123456789"
STATED = 4  # most keys in a document
EARLY = 8  # they are in the first of so many parts of it
SHORTEST = 8  # words of a document to train on
STEEPNESS = 2.5  # the density of documents with n words is n^-STEEPNESS
TRAINING_EXAMPLES = 300_000
HELD_OUT_EXAMPLES = 200
FILLING = 1000  # different filler words


def filling_words() -> list[str]:
    """Words of two or three syllables, always the same."""
    syllables = [a + b for a, b in itertools.product("bdfgklmnprstvz", "aeiouy")]
    rng = random.Random("long recall")
    words = {"".join(rng.choices(syllables, k=rng.choice((2, 2, 3)))) for _ in range(2 * FILLING)}
    return sorted(words)[:FILLING]


def generate_document(rng: random.Random, words: int, keys: int, filling: list[str], frequencies: list[float]) -> tuple[str, str]:
    """A document of `words` words that states `keys` keys, and its label: the digit of the key it asks for."""
    found = rng.choices(filling, cum_weights=frequencies, k=words)
    stated = dict(zip(rng.sample(KEYS, keys), rng.choices(DIGITS, k=keys), strict=True))
    for place, (key, digit) in zip(rng.sample(range(max(STATED, words // EARLY)), keys), stated.items(), strict=True):
        found[place] = f"{key}={digit}"
    asked = rng.choice(list(stated))
    found[-1] = f"{asked}?"
    return " ".join(found), stated[asked]


def generate_long_recall(split: str, count: int, seed: int, longest: int) -> Iterator[tuple[str, str]]:
    """`count` documents of at most `longest` words; training documents vary in length and number of keys."""
    rng, filling = random.Random(f"long recall {split} {seed}"), filling_words()
    frequencies = list(itertools.accumulate(1 / rank for rank in range(1, FILLING + 1)))  # as in natural language
    for _ in range(count):
        words, keys = longest, STATED
        if split == "train":
            power = 1 - STEEPNESS
            words = round(rng.uniform(longest**power, SHORTEST**power) ** (1 / power))
            keys = rng.randint(1, STATED)
        yield generate_document(rng, words, keys, filling, frequencies)


def write_long_recall(
    folder: Path, seed: int, count: int | None = None, longest: int = 4094, held_out: int = HELD_OUT_EXAMPLES
) -> dict[str, Path]:
    """TSV files of documents of at most `longest` words and their labels."""
    least = STATED * EARLY  # fewest words that have room for all keys
    if longest < least:
        raise UsageError(f"long-recall needs documents of {least} words: data.max_length must be at least {least + 2}")
    counts = {"train": count or TRAINING_EXAMPLES, "valid": held_out, "test": held_out}
    texts = {
        split: "".join(f"{text}\t{label}\n" for text, label in generate_long_recall(split, number, seed, longest))
        for split, number in counts.items()
    }
    return write_splits(folder, "long-recall", "tsv", texts)
