"""Extended vocabularies: old tokens keep their ids, text without a new token its ids, and new text comes back whole."""

from __future__ import annotations

import random

import pytest

from heedful.errors import UsageError
from heedful.text import Tokenizer
from heedful.text.extension import add_tokens, extend_pair, learn_tokens, number
from heedful.text.sentencepiece import SentencePieces, unigram_backend

OLD = ["the sun is over seven rivers and stones .", "a dog runs in the snow , a man rides .", "rain and wind over the tree"] * 20
NEW = ["der Hund läuft über die Wiese", "die Wiese ist grün und der Hund ist müde", "개가 풀밭을 달린다", "개가 잔다"] * 10
KINDS = ("bpe", "wordpiece", "sentencepiece", "char", "word")


def vocabulary(kind: str) -> Tokenizer:
    return Tokenizer.train(kind, OLD, 400 if kind != "wordpiece" else 90, ["<de>"])


@pytest.mark.parametrize("kind", KINDS)
def test_old_tokens_keep_their_ids_and_new_text_becomes_shorter_or_known(kind: str) -> None:
    old = vocabulary(kind)
    found = extend_pair(old, old, (NEW, []), 60, shared=True)
    new = found.source
    assert new is found.target
    assert old.size < new.size <= old.size + 60
    assert {name: new.backend.token_to_id(name) for name in old.backend.get_vocab()} == old.backend.get_vocab()
    assert (new.pad, new.unk, new.bos, new.eos) == (old.pad, old.unk, old.bos, old.eos)
    for text in OLD[:3]:
        assert new.encode(text) == old.encode(text) or max(new.encode(text)) >= old.size
        assert new.decode(new.encode(text)) == old.decode(old.encode(text))
    written = [new.encode(text) for text in NEW[:4]]
    assert any(token >= old.size for row in written for token in row)
    assert not any(new.unk in row for row in written) or kind == "word"
    for text, row in zip(NEW, written, strict=False):
        assert new.decode(row) == text or kind == "wordpiece"
        assert len(row) < len(old.encode(text)) or kind in ("char", "word", "wordpiece")
    assert new.encode("the sun<de>") == old.encode("the sun<de>")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "sentencepiece"])
def test_text_that_needs_no_new_token_is_written_as_before(kind: str) -> None:
    old = Tokenizer.train(kind, OLD, 280 if kind != "wordpiece" else 60)
    new = extend_pair(old, old, (OLD[:3] * 5, []), 20, shared=True).source
    rng = random.Random(1)
    letters = sorted(set("".join(OLD)))
    texts = ["".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(400)]
    same = [text for text in texts if max(new.encode(text), default=0) < old.size]
    assert 20 < len(same) < 400
    assert [new.encode(text) for text in same] == [old.encode(text) for text in same]


def test_a_new_token_knows_what_it_was_written_with() -> None:
    old = vocabulary("bpe")
    pieces = learn_tokens(old, NEW, 30)
    ids = number(pieces, old.size)
    new = add_tokens(old, pieces, ids)
    for piece in pieces:
        assert old.decode(piece.parts) == new.decode([ids[piece.name]])
    halves = new.halves()
    assert all(halves[ids[piece.name]].min() >= 0 for piece in pieces), "BPE dropout can undo them"


def test_two_vocabularies_are_extended_each_by_its_own_text() -> None:
    source, target = Tokenizer.train("bpe", OLD, 300), Tokenizer.train("bpe", OLD, 310)
    found = extend_pair(source, target, (NEW[:1] * 9, NEW[3:4] * 9), 20, shared=False)
    assert (found.first_source, found.first_target) == (300, 310)
    assert found.source.size == 300 + len(found.source_parts)
    assert found.target.size == 310 + len(found.target_parts)
    assert max(found.source.encode(NEW[0])) >= 300 > max(found.source.encode(NEW[3]))
    with pytest.raises(UsageError, match="share a vocabulary"):
        extend_pair(source, target, (NEW, NEW), 20, shared=True)


def test_nothing_to_learn_is_said() -> None:
    old = vocabulary("bpe")
    with pytest.raises(UsageError, match=r"tokenizer\.extend finds no subword"):
        extend_pair(old, old, (["a"], ["b"]), 20, shared=True)


def test_two_sentencepiece_models_that_share_their_ids_get_the_same_new_ids() -> None:
    """As in Marian: pieces of both languages have one list of ids, and each side writes with its own."""
    own = ({"▁the": -1.0, "▁sun": -2.0, "▁": -3.0, "s": -4.0}, {"▁die": -1.0, "▁": -3.0, "e": -4.0, "r": -4.5, "d": -4.0})
    names = ["</s>", "<unk>", *dict.fromkeys(name for scores in own for name in scores), "<pad>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    roles = {"pad": "<pad>", "unk": "<unk>", "bos": "<pad>", "eos": "</s>"}

    def side(scores: dict[str, float]) -> Tokenizer:
        pieces = SentencePieces(scores, b"", prefix=True, squeeze=True)
        return Tokenizer(unigram_backend(pieces, vocabulary, "<unk>", ("</s>", "<unk>", "<pad>")), roles)

    source, target = map(side, own)
    found = extend_pair(source, target, (["the sun 개 suns"] * 3, ["der die 개 der"] * 3), 8, shared=True)
    assert found.source.size == found.target.size == len(names) + len(found.source_parts)
    assert found.source_parts is found.target_parts
    dogs = [side.backend.token_to_id("개") for side in (found.source, found.target)]
    assert dogs == [len(names)] * 2, "both sides know it by the same id"
    assert all(min(side.encode("개")) >= len(names) or dogs[0] in side.encode("개") for side in (found.source, found.target))
    assert found.target.decode(found.target.encode("der die 개")) == "der die 개"
    assert min(found.target.encode("der")) >= len(names), "it was ▁ d e r, and is one piece now"
    parts = found.target_parts[found.target.encode("der")[0] - len(names)]
    assert [names[token] for token in parts] == ["▁", "d", "e", "r"]
    assert found.source.encode("the sun") == source.encode("the sun")
