"""SentencePiece models, the vocabularies of Marian, read without the library that made them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from heedful.errors import HeedfulError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
UNIGRAM = 1
SPACE = "▁"  # how SentencePiece writes a space inside a piece
LANGUAGE = re.compile(r">>.+<<")  # a tag that tells a model which language to write


@dataclass(frozen=True)
class SentencePieces:
    """What of a SentencePiece model decides how text is cut."""

    scores: dict[str, float]  # log-probability of every piece that text may be cut into
    charsmap: bytes  # how characters are normalised; empty: not at all
    prefix: bool  # a space is put before the text
    squeeze: bool  # runs of spaces become one, those at the ends none


def read_sentencepiece(path: Path) -> SentencePieces:
    """A .spm or .model file, which is a protocol buffer."""
    try:
        scores: dict[str, float] = {}
        kinds = set()
        trainer: dict[int, int | bytes] = {}
        normalizer: dict[int, int | bytes] = {}
        for number, value in fields(path.read_bytes()):
            if number == 1 and isinstance(value, bytes):
                piece = dict(fields(value))
                name, kind = bytes(piece[1]).decode("utf-8"), int(piece.get(3, NORMAL))
                kinds.add(kind)
                if kind == NORMAL:
                    scores[name] = struct.unpack("<f", bytes(piece.get(2, b"\0\0\0\0")))[0]
            elif number == 2 and isinstance(value, bytes):
                trainer = dict(fields(value))
            elif number == 3 and isinstance(value, bytes):
                normalizer = dict(fields(value))
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise HeedfulError(f"{path} is not a SentencePiece model: {error}") from error
    if not scores:
        raise HeedfulError(f"{path} is not a SentencePiece model: it has no pieces")
    strange = {
        "a model_type other than unigram": int(trainer.get(3, UNIGRAM)) != UNIGRAM,
        "user-defined pieces": USER_DEFINED in kinds,
        "byte pieces": BYTE in kinds,
        "spaces as suffixes": bool(trainer.get(24, 0)),
    }
    if any(strange.values()):
        found = ", ".join(name for name, present in strange.items() if present)
        raise HeedfulError(f"{path} has {found}, which heedful does not read; put a tokenizer.json beside it")
    return SentencePieces(scores, bytes(normalizer.get(2, b"")), bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1)))


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field of a protocol buffer; numbers of fixed size stay bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            number, at = varint(message, at)
            yield key >> 3, number
            continue
        if key & 7 == 2:
            size, at = varint(message, at)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
        else:
            raise ValueError(f"unknown wire type {key & 7}")
        if at + size > len(message):
            raise ValueError("it is cut off")
        yield key >> 3, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, and where the next thing begins."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("it is cut off")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def unigram_backend(pieces: SentencePieces, vocabulary: Mapping[str, int], unknown: str, specials: Sequence[str]) -> Backend:
    """A tokenizer that cuts text as SentencePiece does and numbers the pieces as `vocabulary` does.

    The vocabulary also numbers what this model never cuts: the pieces of the other language, special tokens and language
    tags. The first get a space in front, which no text has any more when it is cut, and lose it again in decoding. (So a
    character that this language never had is unknown here, while transformers takes it for a piece of the other language
    if it happens to be one.)
    """
    least = min(pieces.scores.values())
    whole = {name for name in vocabulary if name in specials or LANGUAGE.fullmatch(name)}
    listed = [(f" <{number}>", least) for number in range(max(vocabulary.values()) + 1)]
    for name, number in vocabulary.items():
        listed[number] = (name if name in pieces.scores or name in whole else f" {name}", pieces.scores.get(name, least))
    backend = Backend(models.Unigram(listed, unk_id=vocabulary[unknown], byte_fallback=False))
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(pieces.charsmap)] if pieces.charsmap else []
    if pieces.squeeze:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A | \z"), "")]
    if pieces.prefix:
        steps.append(normalizers.Prepend(SPACE))
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    # Text that happens to contain "</s>" must not be the piece of this name, so it is cut behind the "<".
    inside = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in specials)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(inside), "merged_with_previous")
    scheme = "always" if pieces.prefix else "never"
    backend.decoder = decoders.Sequence([decoders.Replace(" ", ""), decoders.Metaspace(SPACE, scheme, split=False)])
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tags = sorted(name for name in whole if name not in specials)
    backend.add_tokens([AddedToken(name, special=False, normalized=False) for name in tags])
    return backend
