"""SentencePiece: models trained on the user's own text or read from a file, as Hugging Face `tokenizers` objects, and back."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from heedful.errors import HeedfulError, UsageError

SPACE = "▁"  # how SentencePiece writes a space inside a piece
LANGUAGE = re.compile(r">>.+<<")  # a tag that selects the language to translate into
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # a byte of a character that is not a piece
ROLES = ("pad", "unk", "bos", "eos")  # ids 0 to 3 of a model that we train
INSTALL = "pip install 'heedful[sentencepiece]'"


@dataclass(frozen=True)
class SentencePieces:
    """The parts of a SentencePiece model that decide how text is segmented."""

    scores: dict[str, float]  # log-probability of every piece that text may be segmented into
    charsmap: bytes  # the precompiled normalisation of characters; empty: none
    prefix: bool  # a space is put before the text
    squeeze: bool  # runs of spaces become one, and those at the ends are removed
    bytes: bool = False  # a character that is no piece is written as its bytes


def model_proto() -> Any:
    """The module of the SentencePiece format."""
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise HeedfulError(
            f"SentencePiece needs the packages sentencepiece and protobuf; install them with: {INSTALL}"
        ) from error
    return sentencepiece_model_pb2


def read_sentencepiece(path: Path) -> SentencePieces:
    """Read a unigram model from a .spm or .model file."""
    proto = model_proto()
    from google.protobuf.message import DecodeError

    try:
        model = proto.ModelProto.FromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise HeedfulError(f"{path} is not a SentencePiece model: {error}") from error
    types = proto.ModelProto.SentencePiece
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == types.NORMAL}
    if not scores:
        raise HeedfulError(f"{path} is not a SentencePiece model: it has no pieces")
    unsupported = {
        "a model_type other than unigram": model.trainer_spec.model_type != proto.TrainerSpec.UNIGRAM,
        "user-defined pieces": any(piece.type == types.USER_DEFINED for piece in model.pieces),
        "spaces as suffixes": model.trainer_spec.treat_whitespace_as_suffix,
    }
    if any(unsupported.values()):
        found = ", ".join(name for name, present in unsupported.items() if present)
        raise HeedfulError(f"{path} has {found}, which heedful does not read; put a tokenizer.json beside it")
    rules = model.normalizer_spec
    in_bytes = any(piece.type == types.BYTE for piece in model.pieces)
    return SentencePieces(scores, rules.precompiled_charsmap, rules.add_dummy_prefix, rules.remove_extra_whitespaces, in_bytes)


def train_sentencepiece(texts: Iterable[str], size: int, specials: Sequence[str]) -> Backend:
    """A unigram model of at most `size` pieces, learned by the SentencePiece library, with `specials` as the first ids.

    Characters are normalised as usual there (NFKC, runs of white space become one space); characters that are no piece are bytes.
    """
    proto = model_proto()
    from sentencepiece import SentencePieceTrainer

    written = io.BytesIO()
    roles: dict[str, Any] = {f"{role}_id": number for number, role in enumerate(ROLES)}
    roles |= {f"{role}_piece": name for role, name in zip(ROLES, specials, strict=False)}
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(text for text in texts if text.strip()),
            model_writer=written,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,  # a small corpus may have fewer pieces
            byte_fallback=True,
            control_symbols=list(specials[len(ROLES) :]),
            max_sentence_length=1 << 30,  # bytes; longer ones would be left out silently
            minloglevel=3,
            **roles,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error)
        if "sentences_.empty()" in reason:
            raise UsageError("there is no text to learn a vocabulary from") from error
        if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
            needed = int(found[1])
            raise UsageError(
                f"tokenizer.size {size} is too small for sentencepiece: this text has so many characters that it needs {needed}"
            ) from error
        raise UsageError(f"sentencepiece cannot learn a vocabulary from this text: {reason.strip().splitlines()[-1]}") from error
    model = proto.ModelProto.FromString(written.getvalue())
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == proto.ModelProto.SentencePiece.NORMAL}
    pieces = SentencePieces(scores, model.normalizer_spec.precompiled_charsmap, prefix=True, squeeze=True, bytes=True)
    return unigram_backend(pieces, {piece.piece: number for number, piece in enumerate(model.pieces)}, specials[1], specials)


def write_sentencepiece(backend: Backend, unknown: str) -> bytes:
    """The SentencePiece model that segments text as a backend of `unigram_backend` does."""
    proto, content = model_proto(), json.loads(backend.to_str())
    types = proto.ModelProto.SentencePiece
    model = proto.ModelProto()
    tokens = {token["content"]: token for token in content["added_tokens"]}
    listed = [(name, score) for name, score in content["model"]["vocab"] if not name.startswith(" ")]
    inside = {name for name, _ in listed}
    for name, score in [*listed, *((name, 0.0) for name in tokens if name not in inside)]:
        added = tokens.get(name)
        kind = types.NORMAL
        if name == unknown:
            kind = types.UNKNOWN
        elif added:
            kind = types.CONTROL if added["special"] else types.USER_DEFINED
        elif BYTE.fullmatch(name):
            kind = types.BYTE
        model.pieces.add(piece=name, score=score if kind == types.NORMAL else 0.0, type=kind)
    steps = content["normalizer"]["normalizers"]
    charsmap = next((step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"), "")
    rules, trained = model.normalizer_spec, model.trainer_spec
    rules.name = "user_defined"
    rules.precompiled_charsmap = base64.b64decode(charsmap)
    rules.add_dummy_prefix = any(step["type"] == "Prepend" for step in steps)
    rules.remove_extra_whitespaces = sum(step["type"] == "Replace" for step in steps) > 1
    trained.model_type = proto.TrainerSpec.UNIGRAM
    trained.byte_fallback = content["model"]["byte_fallback"]
    trained.vocab_size, trained.unk_piece = len(model.pieces), unknown
    for role in ROLES:  # the library looks the others up by name
        setattr(trained, f"{role}_id", -1)
    trained.unk_id = next(number for number, piece in enumerate(model.pieces) if piece.type == types.UNKNOWN)
    return bytes(model.SerializeToString())


def is_unigram(backend: Backend) -> bool:
    """Whether text is segmented as SentencePiece does."""
    return isinstance(backend.model, models.Unigram)


def unigram_backend(pieces: SentencePieces, vocabulary: Mapping[str, int], unknown: str, specials: Sequence[str]) -> Backend:
    """A tokenizer that segments text as SentencePiece does, with the ids of `vocabulary`.

    The vocabulary also has ids for tokens this model never produces: pieces of the other language, special tokens and
    language tags. Pieces of the other language are stored with a leading space so that they match no text (by then every
    space is a "▁"); decoding removes it. A character this language never had is therefore unknown here, whereas transformers
    looks it up among the other language's pieces.
    """
    least = min(pieces.scores.values())
    whole = {name for name in vocabulary if name in specials or LANGUAGE.fullmatch(name)}
    in_bytes = {name for name in vocabulary if pieces.bytes and BYTE.fullmatch(name)}
    listed = [(f" <{number}>", least) for number in range(max(vocabulary.values()) + 1)]
    for name, number in vocabulary.items():
        kept = name in pieces.scores or name in whole or name in in_bytes
        listed[number] = (name if kept else f" {name}", pieces.scores.get(name, least))
    backend = Backend(models.Unigram(listed, unk_id=vocabulary[unknown], byte_fallback=len(in_bytes) == 256))
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(pieces.charsmap)] if pieces.charsmap else []
    if pieces.squeeze:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A | \z"), "")]
    if pieces.prefix:
        steps.append(normalizers.Prepend(SPACE))
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    # Text that happens to contain "</s>" or "<0x0A>" must not become that token, so it is split after the "<".
    inside = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in specials)
    inside += "|<(?=0x[0-9A-F]{2}>)" if in_bytes else ""
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(inside), "merged_with_previous")
    scheme = "always" if pieces.prefix else "never"
    joined: list[Any] = [decoders.Replace(" ", ""), decoders.Metaspace(SPACE, scheme, split=False)]
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), *joined] if in_bytes else joined)
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tags = sorted(name for name in whole if name not in specials)
    backend.add_tokens([AddedToken(name, special=False, normalized=False) for name in tags])
    return backend
