"""Tokens as a reader sees them: their text, and the word that each belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from heedful.data.words import split_words
from heedful.explain.explanation import Token
from heedful.text import Tokenizer

BEGIN, END = "⟨begin⟩", "⟨end⟩"
Span = tuple[int, int]  # characters [start, end) of a text


def text_tokens(tokenizer: Tokenizer, ids: Sequence[int], words: Sequence[int | None]) -> list[Token]:
    """Ids as tokens of text; `words` gives the number of the word of each."""
    return [Token(token, text, False, word) for token, text, word in zip(ids, tokenizer.tokens(ids), words, strict=True)]


def decoded_spans(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, list[Span]]:
    """The text of ids that a model wrote, and the characters of it that each covers."""
    text = tokenizer.decode(ids)
    ends = [min(len(text), len(tokenizer.decode(ids[: count + 1]))) for count in range(len(ids))]
    return text, [(start, max(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def word_numbers(text: str, spans: Sequence[Span]) -> list[int | None]:
    """The number of the word that each span begins in, or None for a span without any; punctuation marks are words, too."""
    return numbers_within([(start, end) for _, start, end in split_words(text)], spans)


def numbers_within(words: Sequence[Span], spans: Sequence[Span]) -> list[int | None]:
    """The number of the first of the words, in order, that each span shares a character with."""
    stops = [stop for _, stop in words]
    first = [bisect_right(stops, start) for start, _ in spans]  # the first word that ends after the span begins
    return [n if n < len(words) and words[n][0] < end else None for n, (_, end) in zip(first, spans, strict=True)]


def encoded_tokens(tokenizer: Tokenizer, text: str, longest: int | None = None) -> list[Token]:
    """The tokens of a text that a model reads, up to a limit."""
    ids, spans = tokenizer.encode_with_offsets(text)
    return text_tokens(tokenizer, ids[:longest], word_numbers(text, spans)[:longest])


def written_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    """The tokens that a model wrote."""
    return text_tokens(tokenizer, ids, word_numbers(*decoded_spans(tokenizer, ids)))


def names_of(tokenizer: Tokenizer) -> Callable[[Sequence[int]], list[str]]:
    """Names of the tokens that a model may write: their text, and a name for the end token."""

    def names(ids: Sequence[int]) -> list[str]:
        return [END if token == tokenizer.eos else text for token, text in zip(ids, tokenizer.tokens(ids), strict=True)]

    return names
