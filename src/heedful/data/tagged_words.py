"""Sentences of tagged words as model inputs."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.text import Tokenizer

TaggedSentence = tuple[list[str], list[str]]  # words and their tags


def pieces_of(words: Sequence[str], tokenizer: Tokenizer, room: int) -> list[tuple[int, list[int], list[int | None]]]:
    """A sentence cut between words into pieces of at most `room` tokens.

    Each piece is (index of its first word, ids, position of each word's first token). The position is None for a word the
    tokenizer maps to no token. A word of more than `room` tokens is truncated.
    """
    ids, word_of = tokenizer.encode_words(words)
    tokens: list[list[int]] = [[] for _ in words]
    for token, word in zip(ids, word_of, strict=True):
        tokens[word].append(token)
    pieces: list[tuple[int, list[int], list[int | None]]] = []
    for number, own in enumerate(tokens):
        own = own[:room]
        if not pieces or len(pieces[-1][1]) + len(own) > room:
            pieces.append((number, [], []))
        _, row, first = pieces[-1]
        first.append(len(row) if own else None)
        row.extend(own)
    return pieces
