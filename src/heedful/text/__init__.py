"""Text to token ids and back."""

from heedful.text.tokenizer import TOKENIZER_KINDS, Tokenizer

__all__ = ["TOKENIZER_KINDS", "Tokenizer"]
