"""The tokens of an input that a BERT reads, between [CLS] and the last [SEP], with their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.question_windows import QuestionWindow
from heedful.data.tagged_words import pieces_of
from heedful.errors import UsageError
from heedful.explain.explanation import Token
from heedful.explain.tokens import encoded_tokens, text_tokens, word_numbers, written_tokens
from heedful.pipelines.encoder import AnyEncoder
from heedful.pipelines.masked import MaskedModel
from heedful.text import Tokenizer
from heedful.text.tokenizer import MASKS


@dataclass(frozen=True)
class Row:
    """Tokens that a BERT reads."""

    tokens: list[Token]
    given: str = ""  # the input, as text
    first: int | None = None  # tokens of the first of two texts
    words: Sequence[str] = ()  # to be tagged
    starts: Sequence[int | None] = ()  # which token each of them begins with
    window: QuestionWindow | None = None  # of a question with its passage
    passage: str = ""


def text_row(pipeline: AnyEncoder, text: str) -> Row:
    """A text, truncated to the model's maximum length."""
    return Row(_tokens_of(pipeline, text), text)


def _tokens_of(pipeline: AnyEncoder, text: str) -> list[Token]:
    if isinstance(pipeline, MaskedModel) and any(name in text for name in MASKS):
        return named(pipeline.tokenizer, written_tokens(pipeline.tokenizer, pipeline.with_masks(text)))
    return encoded_tokens(pipeline.tokenizer, text, pipeline.max_length - 2)


def two_texts_row(pipeline: AnyEncoder, text: str, second: str) -> Row:
    """Two texts with [SEP] between them, as in pre-training."""
    left, right = _tokens_of(pipeline, text), _tokens_of(pipeline, second)
    if len(left) + len(right) + 3 > pipeline.max_length:
        raise UsageError(
            f"two texts of {len(left):,} and {len(right):,} tokens are too long together; "
            f"the model takes {pipeline.max_length - 3:,}"
        )
    return Row(joined(pipeline.tokenizer, left, right), f"{text} [SEP] {second}", len(left))


def words_row(pipeline: AnyEncoder, words: Sequence[str], text: str = "") -> Row:
    """Words to be tagged; only the first ones if there are more than the model can read."""
    tokenizer = pipeline.tokenizer
    _, ids, starts = pieces_of(words, tokenizer, pipeline.max_length - 2)[0] if words else (0, [], [])
    numbers: list[int | None] = []
    for number, start in enumerate(starts):
        if start is not None:
            following = next((later for later in starts[number + 1 :] if later is not None), len(ids))
            numbers += [number] * (following - start)
    return Row(text_tokens(tokenizer, ids, numbers), text or " ".join(words), words=words[: len(starts)], starts=starts)


def window_row(pipeline: AnyEncoder, window: QuestionWindow, question: str, passage: str) -> Row:
    """A window of a question with its passage."""
    tokenizer = pipeline.tokenizer
    asked = encoded_tokens(tokenizer, question, window.first)
    read = text_tokens(tokenizer, window.ids[window.first + 1 :], word_numbers(passage, window.offsets))
    return Row(joined(tokenizer, asked, read), question, window.first, window=window, passage=passage)


def ids_row(pipeline: AnyEncoder, ids: Sequence[int], first: int | None) -> Row:
    """Ids as the model reads them, special tokens included."""
    tokenizer = pipeline.tokenizer
    return Row(named(tokenizer, written_tokens(tokenizer, ids)), tokenizer.decode(ids), first)


def joined(tokenizer: Tokenizer, left: Sequence[Token], right: Sequence[Token]) -> list[Token]:
    """The tokens of two texts with [SEP] between them; the numbers of the second text's words continue those of the first."""
    words = 1 + max((token.word for token in left if token.word is not None), default=-1)
    moved = [token if token.word is None else token._replace(word=token.word + words) for token in right]
    return [*left, Token(tokenizer.eos, "[SEP]", True), *moved]


def named(tokenizer: Tokenizer, tokens: Sequence[Token]) -> list[Token]:
    """The same tokens; special ones get their BERT names and belong to no word."""
    names = {tokenizer.bos: "[CLS]", tokenizer.eos: "[SEP]", tokenizer.mask: "[MASK]"}
    return [Token(one.id, names[one.id], True) if one.id in names else one for one in tokens]
