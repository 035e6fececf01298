"""A long text as windows of a language model's context."""

from __future__ import annotations

from heedful.text import Tokenizer

TextWindow = tuple[list[int], float]  # n + 1 tokens, each predicted from those before it, and the bytes of text they stand for


def text_windows(text: str, tokenizer: Tokenizer, context: int) -> list[TextWindow]:
    """A text cut into windows of a model's context; every token, the end included, is predicted exactly once."""
    ids = [tokenizer.eos, *tokenizer.encode(text), tokenizer.eos]
    starts = range(0, len(ids) - 1, context)
    size = len(text.encode("utf-8")) / len(starts)
    return [(ids[start : start + context + 1], size) for start in starts]
