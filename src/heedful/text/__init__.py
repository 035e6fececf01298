"""Text to token ids and back."""

from heedful.text.tokenizer import KINDS, Tokenizer

__all__ = ["KINDS", "Tokenizer"]
