"""Extends a trained vocabulary with subwords of new text: every old token keeps its id, and so does text without new tokens.

New subwords are learned as in BPE, starting from the old tokens instead of letters: tokens that are often neighbours in a word
are merged. Characters (or words, where tokens are words) that were unknown come first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from heedful.errors import UsageError
from heedful.settings import JsonObject
from heedful.text.sentencepiece import BYTE, SPACE
from heedful.text.tokenizer import Tokenizer

LETTERS = 0x10000  # an old token is the character with this code plus its id while merges are learned
LEAST = 2  # occurrences of a new subword
GAIN = 0.1  # added to a unigram piece's score so that it is more probable than its parts


@dataclass(frozen=True)
class NewToken:
    """A new token: its two halves, if it was merged, and the old ids that its text was written with before."""

    name: str
    parts: tuple[int, ...]  # none: its text was unknown
    halves: tuple[str, str] | None = None
    score: float = 0.0  # score of a unigram piece


def learn_tokens(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> list[NewToken]:
    """At most `most` new tokens for these texts, the most useful first."""
    kind = _model_of(tokenizer)["type"]
    prefixes = ("", _model_of(tokenizer)["continuing_subword_prefix"]) if kind == "WordPiece" else ("",)
    unknown = _unknown(tokenizer, texts).items()
    pieces = [NewToken(prefix + text, parts) for text, parts in unknown for prefix in prefixes][:most]
    if kind == "WordLevel":
        return pieces
    ids = number(pieces, tokenizer.size)
    parts_of = {ids[piece.name]: piece.parts for piece in pieces}
    return pieces + _merges(add_tokens(tokenizer, pieces, ids), texts, most - len(pieces), parts_of)


def number(pieces: Iterable[NewToken], first: int) -> dict[str, int]:
    """Name → id of new tokens, from `first` on."""
    return {name: first + index for index, name in enumerate(dict.fromkeys(piece.name for piece in pieces))}


def add_tokens(tokenizer: Tokenizer, pieces: Sequence[NewToken], ids: Mapping[str, int]) -> Tokenizer:
    """The tokenizer with new tokens. `ids` may have more names: those of another tokenizer that shares the ids."""
    content = json.loads(tokenizer.backend.to_str())
    model, known = content["model"], {token["content"]: token["id"] for token in content["added_tokens"]}
    if model["type"] == "Unigram":
        _add_unigram(model["vocab"], pieces, ids, known)
    else:  # with the tags, so that ids have no gaps
        model["vocab"] = {**known, **model["vocab"], **{piece.name: ids[piece.name] for piece in pieces}}
    if model["type"] == "BPE":
        model["merges"] += [list(piece.halves) for piece in pieces if piece.halves]
    return Tokenizer(Backend.from_str(json.dumps(content, ensure_ascii=False)), tokenizer.roles)


def _add_unigram(
    vocabulary: list[list[Any]], pieces: Sequence[NewToken], ids: Mapping[str, int], tags: Mapping[str, int]
) -> None:
    """Ids are positions in the list. A piece that is not this tokenizer's own begins with a space, so that it matches no text."""
    least = min(score for _, score in vocabulary)
    own = {piece.name: piece.score or least for piece in pieces} | dict.fromkeys(tags, least)
    names = {index: name for name, index in {**ids, **tags}.items()}
    for index in range(len(vocabulary), max(names) + 1):
        name = names.get(index, f"<{index}>")
        vocabulary.append([name if name in own else f" {name}", own.get(name, least)])


def _model_of(tokenizer: Tokenizer) -> JsonObject:
    found: JsonObject = json.loads(tokenizer.backend.to_str())["model"]
    return found


def _unwritten(tokenizer: Tokenizer) -> set[int]:
    """The tokens used for text outside the vocabulary: the unknown token, and byte tokens."""
    vocabulary = tokenizer.backend.get_vocab()
    return {tokenizer.unk, *(token for name, token in vocabulary.items() if BYTE.fullmatch(name))}


def _unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Characters (or words, where tokens are words) outside the vocabulary, the most frequent first, and the bytes that
    stand for them."""
    by_words = isinstance(tokenizer.backend.pre_tokenizer, pre_tokenizers.WhitespaceSplit)
    counts: Counter[str] = Counter()
    unwritten = _unwritten(tokenizer)
    for text, encoding in zip(texts, tokenizer.backend.encode_batch(list(texts), add_special_tokens=False), strict=True):
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token in unwritten:
                counts.update([text[start:end]] if by_words else text[start:end])
    found = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        tokens = tokenizer.encode(text)
        if text.strip() and unwritten.intersection(tokens):
            found[text] = tuple(token for token in tokens if token in unwritten and token != tokenizer.unk)
    return found


def _merges(tokenizer: Tokenizer, texts: Sequence[str], most: int, parts_of: Mapping[int, tuple[int, ...]]) -> list[NewToken]:
    """New tokens that are merged from tokens of `tokenizer`; `parts_of` gives the old tokens of those that are new."""
    if most <= 0:
        return []
    model = _model_of(tokenizer)
    learner = Backend(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rows = [" ".join("".join(chr(LETTERS + token) for token in word) for word in row) for row in _words(tokenizer, texts)]
    letters = {letter for row in rows for letter in row} - {" "}
    learner.train_from_iterator(
        rows, trainers.BpeTrainer(vocab_size=len(letters) + most, min_frequency=LEAST, show_progress=False)
    )
    scores_count = model["type"] == "Unigram"
    scores = dict(model["vocab"]) if scores_count else {}
    prefix = model.get("continuing_subword_prefix") or ""
    taken = set(tokenizer.backend.get_vocab(with_added_tokens=True))
    names = {chr(LETTERS + token): str(tokenizer.backend.id_to_token(token)) for token in range(tokenizer.size)}
    pieces: list[NewToken] = []
    for left, right in json.loads(learner.to_str())["model"]["merges"]:
        if left not in names or right not in names:
            continue  # one of them was skipped
        halves = names[left], names[right]
        name = halves[0] + (halves[1].removeprefix(prefix) if prefix else halves[1])
        if name in taken:
            continue  # an old token that the old merges do not produce here; text must keep its ids
        taken.add(name)
        names[left + right] = name
        score = scores.get(halves[0], 0.0) + scores.get(halves[1], 0.0) + GAIN
        scores[name] = score
        tokens = [ord(letter) - LETTERS for letter in left + right]
        parts = tuple(part for token in tokens for part in parts_of.get(token, (token,)))
        pieces.append(NewToken(name, parts, halves, score if scores_count else 0.0))
    return pieces


def _words(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[list[int]]]:
    """The words of each text as ids; a special token, a tag or an unknown word is between words."""
    backend = tokenizer.backend
    outside = {*_unwritten(tokenizer), *backend.get_added_tokens_decoder()}
    spaced = isinstance(backend.model, models.Unigram)  # a vocabulary without word boundaries of its own: a space begins a word
    begins = {token for name, token in backend.get_vocab().items() if name.startswith(SPACE)} if spaced else set()
    for encoding in backend.encode_batch(list(texts), add_special_tokens=False):
        found: list[list[int]] = [[]]
        last = None
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if token in outside:
                found.append([])
                continue
            if (token in begins) if spaced else word != last:
                found.append([])
            last = word
            found[-1].append(token)
        yield [word for word in found if word]


@dataclass(frozen=True)
class Extended:
    """The tokenizers of both sides with new tokens, and what each new id of a side was written with before."""

    source: Tokenizer
    target: Tokenizer
    source_parts: list[tuple[int, ...]]  # of the ids from `first_source` on
    target_parts: list[tuple[int, ...]]
    first_source: int
    first_target: int


def extend_pair(
    source: Tokenizer, target: Tokenizer, texts: tuple[Iterable[str], Iterable[str]], most: int, shared: bool
) -> Extended:
    """Both tokenizers of a translation model with at most `most` new tokens in all.

    `shared`: both have the same ids, as one tokenizer or two that share a vocabulary.
    """
    sides = [list(side) for side in texts]
    if source is target:
        learned = learn_tokens(source, sides[0] + sides[1], most)
        _check_learned(source, learned)
        ids = number(learned, source.size)
        both, parts = add_tokens(source, learned, ids), [piece.parts for piece in learned]
        return Extended(both, both, parts, parts, source.size, source.size)
    if shared and not all(isinstance(one.backend.model, models.Unigram) for one in (source, target)):
        raise UsageError("tokenizer.extend cannot extend two tokenizers that share a vocabulary, except SentencePiece's")
    own = [learn_tokens(one, side, most // 2) for one, side in zip((source, target), sides, strict=True)]
    _check_learned(source, own[0] + own[1])
    firsts = source.size, target.size
    if shared:
        firsts = (max(firsts), max(firsts))
        every = {piece.name: piece for piece in own[1] + own[0]}
        ids = number(own[0] + own[1], firsts[0])
        parts = [every[name].parts for name in ids]
        return Extended(add_tokens(source, own[0], ids), add_tokens(target, own[1], ids), parts, parts, *firsts)
    new = [add_tokens(one, learned, number(learned, one.size)) for one, learned in zip((source, target), own, strict=True)]
    source_parts, target_parts = ([piece.parts for piece in learned] for learned in own)
    return Extended(new[0], new[1], source_parts, target_parts, *firsts)


def _check_learned(tokenizer: Tokenizer, learned: Sequence[NewToken]) -> None:
    if not learned:
        raise UsageError(
            "tokenizer.extend finds no subword that the new text needs and the model's vocabulary lacks; leave it out"
        )
