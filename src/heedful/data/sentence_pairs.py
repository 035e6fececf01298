"""Pairs of texts for BERT's next-sentence prediction: in half of them, the second follows the first (BERT, Section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.text import Tokenizer

SentencePair = tuple[list[int], list[int], bool]  # ids of two texts, and whether the second follows the first


def chunks_of(document: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]]:
    """A document's sentences packed into chunks so short that two fit into one row with its three special tokens."""
    room = (max_length - 3) // 2
    chunks: list[list[int]] = []
    for ids in tokenizer.encode_batch(document):
        for start in range(0, len(ids), room):
            part = ids[start : start + room]
            if not chunks or len(chunks[-1]) + len(part) > room:
                chunks.append([])
            chunks[-1].extend(part)
    return chunks


def pairs_of(chunks: Sequence[tuple[int, list[int]]]) -> list[SentencePair]:
    """Pair the chunks (document, ids) alternately with the next one and with one from the other half of the corpus."""
    pairs: list[SentencePair] = []
    for index, (document, chunk) in enumerate(chunks):
        far_document, far = chunks[(index + len(chunks) // 2) % len(chunks)]
        if index % 2 == 0 and index + 1 < len(chunks) and chunks[index + 1][0] == document:
            pairs.append((chunk, chunks[index + 1][1], True))
        elif far_document != document:
            pairs.append((chunk, far, False))
    return pairs
