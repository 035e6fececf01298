"""A long text cut into windows of a language model's context length."""

from __future__ import annotations

from heedful.text import Tokenizer

TextWindow = tuple[list[int], float]  # n + 1 tokens, of which n are predicted, and how many bytes of text they cover


def text_windows(text: str, tokenizer: Tokenizer, context: int) -> list[TextWindow]:
    """A text as windows of `context` predictions; every token, including the end token, is predicted exactly once."""
    ids = [tokenizer.eos, *tokenizer.encode(text), tokenizer.eos]
    starts = range(0, len(ids) - 1, context)
    size = len(text.encode("utf-8")) / len(starts)
    return [(ids[start : start + context + 1], size) for start in starts]
