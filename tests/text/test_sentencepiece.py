"""SentencePiece models as our tokenizers, against the SentencePiece library."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from interop_models import TEXTS, train_pieces, write_marian_vocabulary

from heedful.errors import HeedfulError, UsageError
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.foreign_tokenizers import read_foreign_tokenizers
from heedful.text import Tokenizer
from heedful.text.sentencepiece import read_sentencepiece, unigram_backend, write_sentencepiece

sentencepiece = importlib.import_module("sentencepiece")

SPECIALS = ["</s>", "<pad>", "<unk>"]
HARD = [
    *TEXTS,
    "",
    " ",
    "  two   spaces  ",
    "a tab\tand a\nline",
    "ﬁne ½ ① Ａｂｃ ｶﾞ が é é",
    "emoji 😀👍🏽 and 👨‍👩‍👧",
    "a\u200bb\u00adc\u00a0d",
    "…—“quote”",
    "ß İ ŉ ǆ",
    "zzz qqq 狐",
]


def numbered(model: Any) -> dict[str, int]:
    """Ids like Marian's: special tokens first and last; between them the pieces and two of another language only."""
    pieces = [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
    return {name: number for number, name in enumerate(["</s>", "<unk>", *pieces, "▁elsewhere", "狐", ">>de<<", "<pad>"])}


def both(tmp_path: Path, **options: Any) -> tuple[Any, Tokenizer, dict[str, int]]:
    """Their processor, our tokenizer, and the ids of the pieces."""
    data = train_pieces([*TEXTS, "x < y > z / s <> pad"] * 4, 400, **options)
    (tmp_path / "source.spm").write_bytes(data)
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    numbers = numbered(model)
    backend = unigram_backend(read_sentencepiece(tmp_path / "source.spm"), numbers, "<unk>", SPECIALS)
    Tokenizer(backend, {"bos": "<pad>"}).save(tmp_path / "tokenizer.json")
    return model, Tokenizer.load(tmp_path / "tokenizer.json", {"bos": "<pad>"}), numbers


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf", "identity"])
@pytest.mark.parametrize("options", [{}, {"remove_extra_whitespaces": False}, {"add_dummy_prefix": False}])
def test_text_is_segmented_and_joined_as_sentencepiece_does(rule: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, ours, numbers = both(tmp_path, normalization_rule_name=rule, character_coverage=0.99, **options)
    for text in HARD:
        pieces = model.encode(text, out_type=str)
        wanted = [numbers["<unk>"] if model.piece_to_id(piece) == model.unk_id() else numbers[piece] for piece in pieces]
        assert ours.encode(text) == wanted, text
        if ours.unk not in wanted:
            assert ours.decode(wanted) == model.decode(model.encode(text))
    assert any(ours.unk in ours.encode(text) for text in HARD)


def test_text_never_becomes_a_special_token_or_a_piece_of_the_other_language(tmp_path: Path) -> None:
    model, ours, numbers = both(tmp_path)
    reserved = {numbers[name] for name in ("</s>", "<pad>", "▁elsewhere", "狐")}
    for text in ("</s>", "x</s>y", "<pad>", "elsewhere", "狐", "</s></s> <pad>"):
        assert not reserved & set(ours.encode(text)), text
    assert ours.encode("x</s>y") == [numbers[piece] for piece in [*model.encode("x", out_type=str), "<", "/", "s", ">", "y"]]
    assert ours.decode([numbers["▁elsewhere"], numbers["狐"]]) == "elsewhere狐"


def test_a_model_that_we_train_is_one_of_the_sentencepiece_library() -> None:
    ours = Tokenizer.train("sentencepiece", TEXTS * 4, 700, masked=True)
    assert (ours.pad, ours.unk, ours.bos, ours.eos, ours.mask) == (0, 1, 2, 3, 4)
    model = sentencepiece.SentencePieceProcessor(model_proto=write_sentencepiece(ours.backend, "<unk>"))
    for text in [*HARD, "x</s>y <0x0A> <pad>"]:
        text = text.replace("ｶﾞ", "ガ")  # the `tokenizers` library does not join a half-width letter and its mark
        found = ours.backend.encode(text, add_special_tokens=False)
        assert found.tokens == model.encode(text, out_type=str), text
        assert ours.decode(found.ids) == model.decode_pieces(found.tokens)
        assert ours.unk not in found.ids
    assert ours.decode(ours.encode("狐 🦊 fox")) == "狐 🦊 fox"  # characters that it never saw, by their bytes
    ids = ours.encode("The fox jumps")
    cut = next(place for place, token in enumerate(found_tokens(ours, ids)) if place and token.startswith("▁"))
    assert ours.decode(ids[:cut]) + ours.continuation(ids[cut:]) == "The fox jumps"


def found_tokens(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [str(tokenizer.backend.id_to_token(token)) for token in ids]


@pytest.mark.parametrize(
    ("texts", "size", "says"),
    [([], 700, "there is no text"), ([" "], 700, "there is no text"), (TEXTS, 300, "it needs \\d+"), (TEXTS, 99, "too small")],
)
def test_a_vocabulary_that_cannot_be_learned_is_a_clear_error(texts: list[str], size: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Tokenizer.train("sentencepiece", texts, size)


def test_a_language_tag_is_one_token_and_leaves_the_text_unchanged(tmp_path: Path) -> None:
    _, ours, numbers = both(tmp_path)
    for text in (">>de<< The fox", ">>de<<The fox"):
        assert ours.encode(text) == [numbers[">>de<<"], *ours.encode("The fox")]


def test_ids_equal_those_of_the_marian_tokenizer(tmp_path: Path) -> None:
    import transformers

    size = write_marian_vocabulary(tmp_path)
    named = {"decoder_start_token_id": size - 1, "pad_token_id": size - 1, "eos_token_id": 0}
    found, note = read_foreign_tokenizers(tmp_path, "marian", ForeignConfig(named, "config.json"), [size, size])
    assert note == ""
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    compared = 0
    for name, theirs_of in (("tokenizer", theirs), ("target_tokenizer", lambda text: theirs(text_target=text))):
        for text in HARD:
            ids = found[name].encode(text)
            # For text that this side does not know, transformers looks up the characters among the other side's pieces.
            if ids and found[name].unk not in ids:
                assert [*ids, 0] == theirs_of(text).input_ids, text
                compared += 1
    assert compared > 10
    text = TEXTS[4]
    assert found["target_tokenizer"].decode(found["target_tokenizer"].encode(text)) == text


def test_pieces_without_an_id_are_reported_and_split_into_smaller_ones(tmp_path: Path) -> None:
    size = write_marian_vocabulary(tmp_path)
    numbers = json.loads((tmp_path / "vocab.json").read_text())
    pieces = read_sentencepiece(tmp_path / "source.spm").scores
    lost = next(name for name in numbers if name in pieces and len(name) > 2 and not name.startswith("▁"))
    kept = [name for name in numbers if name != lost]
    (tmp_path / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(kept)}))
    ids = {"decoder_start_token_id": size - 2, "pad_token_id": size - 2, "eos_token_id": 0}
    found, note = read_foreign_tokenizers(tmp_path, "marian", ForeignConfig(ids, "config.json"), [size, size])
    assert "1 pieces of source.spm have no id in vocab.json" in note
    assert found["tokenizer"].decode(found["tokenizer"].encode(lost)) == lost


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model_type": "bpe"}, "a model_type other than unigram"),
        ({"user_defined_symbols": ["<tag>"]}, "user-defined pieces"),
        ({"treat_whitespace_as_suffix": True}, "spaces as suffixes"),
    ],
)
def test_models_with_unsupported_segmentation_are_refused(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "source.spm").write_bytes(train_pieces(TEXTS * 4, **options))
    with pytest.raises(HeedfulError, match=f"has {says}, which heedful does not read"):
        read_sentencepiece(tmp_path / "source.spm")


def test_every_truncated_or_foreign_file_is_a_clear_error(tmp_path: Path) -> None:
    data = train_pieces(TEXTS, 150)
    path = tmp_path / "source.spm"
    for broken in (b"", b"\x0a", b"not a model", data[: len(data) // 2], data[1:], b"\xff" * 40, b'{"json": true}'):
        path.write_bytes(broken)
        with pytest.raises(HeedfulError, match=r"source.spm is not a SentencePiece model"):
            read_sentencepiece(path)


@pytest.mark.parametrize("numbers", [{"</s>": 0, "<unk>": 2}, {"</s>": 0, "<unk>": 0}, {"</s>": "0", "<unk>": 1}, {"a": 0}])
def test_wrong_ids_are_refused(numbers: dict[str, Any], tmp_path: Path) -> None:
    write_marian_vocabulary(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    with pytest.raises(HeedfulError, match=r"vocab.json (does not number its|has no <unk>)"):
        read_foreign_tokenizers(tmp_path, "marian", ForeignConfig({}, "config.json"), [9, 9])


def test_without_the_package_an_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sentencepiece, "sentencepiece_model_pb2", raising=False)
    monkeypatch.setitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", None)  # as if it were not installed
    with pytest.raises(
        HeedfulError, match=r"needs the packages sentencepiece and protobuf; .*pip install 'heedful\[sentencepiece\]'"
    ):
        read_sentencepiece(tmp_path / "source.spm")
