"""SentencePiece models, the vocabularies of Marian, rebuilt as Hugging Face `tokenizers` objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from heedful.errors import HeedfulError

SPACE = "▁"  # how SentencePiece writes a space inside a piece
LANGUAGE = re.compile(r">>.+<<")  # a tag that selects the language to translate into


@dataclass(frozen=True)
class SentencePieces:
    """The parts of a SentencePiece model that decide how text is segmented."""

    scores: dict[str, float]  # log-probability of every piece that text may be segmented into
    charsmap: bytes  # the precompiled normalisation of characters; empty: none
    prefix: bool  # a space is put before the text
    squeeze: bool  # runs of spaces become one, and those at the ends are removed


def read_sentencepiece(path: Path) -> SentencePieces:
    """Read a unigram model from a .spm or .model file."""
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec
    except ImportError as error:
        raise HeedfulError(
            f"reading {path} needs the packages sentencepiece and protobuf; install them with: pip install 'heedful[marian]'"
        ) from error

    try:
        model = ModelProto.FromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise HeedfulError(f"{path} is not a SentencePiece model: {error}") from error
    types = ModelProto.SentencePiece
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == types.NORMAL}
    if not scores:
        raise HeedfulError(f"{path} is not a SentencePiece model: it has no pieces")
    unsupported = {
        "a model_type other than unigram": model.trainer_spec.model_type != TrainerSpec.UNIGRAM,
        "user-defined pieces": any(piece.type == types.USER_DEFINED for piece in model.pieces),
        "byte pieces": any(piece.type == types.BYTE for piece in model.pieces),
        "spaces as suffixes": model.trainer_spec.treat_whitespace_as_suffix,
    }
    if any(unsupported.values()):
        found = ", ".join(name for name, present in unsupported.items() if present)
        raise HeedfulError(f"{path} has {found}, which heedful does not read; put a tokenizer.json beside it")
    normalizer = model.normalizer_spec
    return SentencePieces(
        scores, normalizer.precompiled_charsmap, normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces
    )


def unigram_backend(pieces: SentencePieces, vocabulary: Mapping[str, int], unknown: str, specials: Sequence[str]) -> Backend:
    """A tokenizer that segments text as SentencePiece does, with the ids of `vocabulary`.

    The vocabulary also has ids for tokens this model never produces: pieces of the other language, special tokens and
    language tags. Pieces of the other language are stored with a leading space so that they match no text (by then every
    space is a "▁"); decoding removes it. A character this language never had is therefore unknown here, whereas transformers
    looks it up among the other language's pieces.
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
    # Text that happens to contain "</s>" must not become the special token, so it is split after the "<".
    inside = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in specials)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(inside), "merged_with_previous")
    scheme = "always" if pieces.prefix else "never"
    backend.decoder = decoders.Sequence([decoders.Replace(" ", ""), decoders.Metaspace(SPACE, scheme, split=False)])
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tags = sorted(name for name in whole if name not in specials)
    backend.add_tokens([AddedToken(name, special=False, normalized=False) for name in tags])
    return backend
