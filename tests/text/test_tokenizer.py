"""Text becomes ids and comes back; special tokens stay special; vocabularies of others load."""

from __future__ import annotations

import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from heedful.errors import HeedfulError, UsageError
from heedful.text import TOKENIZER_KINDS, Tokenizer

CORPUS = [
    "a man in a blue shirt is standing on a ladder",
    "ein mann in einem blauen hemd steht auf einer leiter",
    "two young guys with shaggy hair look at their hands",
    "zwei junge weiße männer sind im freien in der nähe vieler büsche",
    "the end of a sentence is not written </s> here",
]
TAGS = ["<de>", "<en-GB>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "cafe", ",", "!", "b", "##c", "[", "]", "mask", "中"]
CASED = [*BERT, "The", "Cat", "Ca", "##fé"]


@cache
def trained(kind: str, tags: tuple[str, ...] = ()) -> Tokenizer:
    return Tokenizer.train(kind, CORPUS, 320, tags)


@cache
def reloaded(kind: str, folder: Path) -> Tokenizer:
    trained(kind).save(folder / f"{kind}.json")
    return Tokenizer.load(folder / f"{kind}.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


def vocab_txt(path: Path, words: list[str]) -> Path:
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


def bert_like() -> Backend:
    backend = Backend(models.WordPiece({word: index for index, word in enumerate(BERT)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    backend.add_special_tokens(BERT[:5])
    backend.enable_padding(pad_id=0, pad_token="[PAD]", length=32)
    backend.enable_truncation(4)
    return backend


def gpt2_like() -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


@pytest.mark.parametrize("kind", ["bpe", "byte"])
@settings(deadline=None, max_examples=200)
@given(text=st.text())
@example("<pad>")
@example("</s>")
@example("a<s>b<unk></s> <pad>")
@example(" two  spaces\t\r\n and an end ")
@example("\u2028\x85\x0b\x00\ufeff")
@example("👩‍👩‍👧 é é 한국 ﷽")
def test_bytes_and_bpe_give_any_text_back(kind: str, folder: Path, text: str) -> None:
    for tokenizer in (trained(kind), reloaded(kind, folder)):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.encode_batch([text]) == [ids]
        assert not {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos} & set(ids)


@settings(deadline=None, max_examples=100)
@given(text=st.text(alphabet=sorted(set("".join(CORPUS)))))
@example("</s>")
@example("  and  </s> sentences  ")
def test_characters_give_known_text_back(folder: Path, text: str) -> None:
    for tokenizer in (trained("char"), reloaded("char", folder)):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert len(ids) == len(text)
        assert not {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos} & set(ids)


def test_an_unknown_character_is_unk_and_the_others_stay() -> None:
    tokenizer = trained("char")
    ids = tokenizer.encode("m中n")
    assert [token == tokenizer.unk for token in ids] == [False, True, False]
    assert tokenizer.decode(ids) == "mn"


def test_characters_keep_line_ends_they_were_trained_on() -> None:
    tokenizer = Tokenizer.train("char", ["a\nb\r\u2028c"], 50)
    assert tokenizer.decode(tokenizer.encode("c\r\n\u2028a")) == "c\r\n\u2028a"


@pytest.mark.parametrize("text", [CORPUS[0], CORPUS[1], CORPUS[3], "a man in a ladder", "hair hands shirt"])
def test_wordpiece_gives_plain_words_back(folder: Path, text: str) -> None:
    for tokenizer in (trained("wordpiece"), reloaded("wordpiece", folder)):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_wordpiece_calls_a_word_it_cannot_spell_unk() -> None:
    tokenizer = trained("wordpiece")
    assert tokenizer.encode("中") == [tokenizer.unk]


@settings(deadline=None, max_examples=100)
@given(text=st.text())
@example("<pad> </s> <s>")
def test_wordpiece_never_writes_padding_begin_or_end(text: str) -> None:
    tokenizer = trained("wordpiece")
    assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(tokenizer.encode(text))


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_the_four_special_ids_are_distinct_and_left_out_of_text(kind: str) -> None:
    tokenizer = trained(kind)
    special = [tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos]
    assert len(set(special)) == 4
    assert all(0 <= token < tokenizer.size for token in special)
    ids = tokenizer.encode("a man")
    assert tokenizer.decode([tokenizer.bos, *ids, tokenizer.eos, tokenizer.pad]) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_a_tag_is_one_token_and_the_rest_of_the_text_is_untouched(kind: str) -> None:
    tokenizer = trained(kind, tuple(TAGS))
    plain = tokenizer.encode(" a man")
    for tag in TAGS:
        ids = tokenizer.encode(f"{tag} a man")
        assert tokenizer.tokens(ids)[0] == tag
        assert ids[-len(plain) :] == plain
        assert tokenizer.decode(ids) == f"{tag} a man"
        assert ids.count(ids[0]) == 1


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "char"])
@pytest.mark.parametrize("tags", [(), tuple(TAGS)])
def test_a_vocabulary_is_never_larger_than_asked_for(kind: str, tags: tuple[str, ...]) -> None:
    ideographs = ["".join(chr(0x4E00 + start + more) for more in range(4)) for start in range(0, 1200, 4)]
    for size in [16, 64, 300, 301] if kind != "bpe" else [262, 300]:
        tokenizer = Tokenizer.train(kind, CORPUS * 4 + ideographs, size, tags)
        assert tokenizer.size <= size
        ids = tokenizer.encode("".join([*CORPUS, *ideographs, *tags]))
        assert max(ids) < tokenizer.size


def test_a_word_vocabulary_has_one_token_per_word_between_spaces() -> None:
    tokenizer = Tokenizer.train("word", ["[MAX 2 [MIN 9 2 ] ]", "[MAX 2 ]"], 4 + 4)
    ids = tokenizer.encode("[MAX 2\t[MIN 9 2 ] ]\n")
    assert len(ids) == 7
    assert ids.count(tokenizer.unk) == 1, "the vocabulary has room for all words but one"
    assert tokenizer.size == 8
    assert tokenizer.decode(tokenizer.encode("[MAX 2 2 ]")) == "[MAX 2 2 ]"
    assert tokenizer.encode_with_offsets("2 ]")[1] == [(0, 1), (2, 3)]


def test_bpe_uses_the_whole_size_when_the_text_allows() -> None:
    assert Tokenizer.train("bpe", CORPUS, 280, TAGS).size == 280


def test_a_character_vocabulary_keeps_the_most_frequent() -> None:
    tokenizer = Tokenizer.train("char", ["aaabbbccd"], 4 + 3)
    assert tokenizer.decode(tokenizer.encode("abcd")) == "abc"


@pytest.mark.parametrize(("kind", "size"), [("bpe", 100), ("wordpiece", 5), ("char", 4), ("word", 4)])
def test_a_size_below_the_smallest_vocabulary_says_so(kind: str, size: int) -> None:
    with pytest.raises(UsageError, match=f"tokenizer.size {size} is too small for {kind}"):
        Tokenizer.train(kind, CORPUS, size)


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="bpe, wordpiece, sentencepiece, char, byte, word, not 'syllable'"):
        Tokenizer.train("syllable", CORPUS, 300)


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
def test_saving_and_loading_keeps_every_id(kind: str, tmp_path: Path) -> None:
    before = trained(kind, tuple(TAGS))
    before.save(tmp_path / "tokenizer.json")
    after = Tokenizer.load(tmp_path / "tokenizer.json")
    texts = [*CORPUS, "<de> a man </s> <pad>", "中"]
    assert after.encode_batch(texts) == before.encode_batch(texts)
    assert (after.size, after.pad, after.unk, after.bos, after.eos) == (
        before.size, before.pad, before.unk, before.bos, before.eos
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["bpe", "char", "byte"])
def test_the_same_text_gives_the_same_vocabulary(kind: str) -> None:
    assert Tokenizer.train(kind, CORPUS, 320).backend.get_vocab() == trained(kind).backend.get_vocab()


def test_wordpiece_is_the_same_in_every_process() -> None:
    """The library's own trainer is not: its hash tables are seeded anew in each."""
    code = (
        "from heedful.text import Tokenizer; import json;"
        "words = [a + b + c for a in 'abcde' for b in 'fghij' for c in 'klmno'];"
        "print(json.dumps(Tokenizer.train('wordpiece', [' '.join(words)], 90).backend.get_vocab(), sort_keys=True))"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(3)}
    assert len(runs) == 1


def test_tokens_can_be_read_by_people() -> None:
    assert "".join(trained("bpe").tokens(trained("bpe").encode("a man"))) == "a man"
    assert trained("char").tokens(trained("char").encode("a man")) == list("a man")
    assert trained("byte").tokens([trained("byte").eos]) == ["</s>"]


def test_a_bert_vocab_txt_loads_with_its_own_special_ids(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(vocab_txt(tmp_path / "vocab.txt", BERT))
    assert (tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos) == (0, 1, 2, 3)
    assert tokenizer.size == len(BERT)
    assert tokenizer.tokens(tokenizer.encode("The cats, Café!")) == ["the", "cat", "##s", ",", "cafe", "!"]
    assert tokenizer.decode(tokenizer.encode("The cats!")) == "the cats!"
    assert not {0, 2, 3, 4} & set(tokenizer.encode("[PAD] [CLS] [SEP] [MASK]"))


def test_a_cased_bert_vocabulary_keeps_case(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(vocab_txt(tmp_path / "vocab.txt", CASED))
    assert tokenizer.tokens(tokenizer.encode("The Cats the Café")) == ["The", "Cat", "##s", "the", "Ca", "##fé"]


def test_a_line_separator_inside_a_bert_token_does_not_shift_the_ids_after_it(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "the"]
    tokenizer = Tokenizer.load(vocab_txt(tmp_path / "vocab.txt", words))
    assert tokenizer.encode("the") == [6]
    assert tokenizer.size == 7


def test_a_bert_vocabulary_with_windows_line_ends_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(BERT).encode())
    tokenizer = Tokenizer.load(tmp_path / "vocab.txt")
    assert tokenizer.size == len(BERT)
    assert tokenizer.tokens(tokenizer.encode("the cats")) == ["the", "cat", "##s"]


def test_a_bert_vocabulary_survives_saving_as_json(tmp_path: Path) -> None:
    before = Tokenizer.load(vocab_txt(tmp_path / "vocab.txt", BERT))
    before.save(tmp_path / "tokenizer.json")
    after = Tokenizer.load(tmp_path / "tokenizer.json")
    assert after.encode("The cats, Café! 中") == before.encode("The cats, Café! 中")
    assert after.size == before.size


def test_a_foreign_bert_tokenizer_json_gets_its_own_special_ids(tmp_path: Path) -> None:
    bert_like().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos) == (0, 1, 2, 3)
    assert tokenizer.size == len(BERT)


def test_a_foreign_tokenizer_neither_frames_pads_nor_cuts(tmp_path: Path) -> None:
    bert_like().save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    words = ["the", "cat", "the", "cat", "the", "cat", ",", "!"]
    assert tokenizer.encode_batch(["the", " ".join(words)]) == [[5], [BERT.index(word) for word in words]]


def test_a_gpt2_like_tokenizer_ends_with_its_one_special_token_and_gets_the_others(tmp_path: Path) -> None:
    backend = gpt2_like()
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    end = backend.token_to_id("<|endoftext|>")
    assert tokenizer.eos == end
    assert len({tokenizer.pad, tokenizer.unk, tokenizer.bos, end}) == 4
    assert max(tokenizer.pad, tokenizer.unk, tokenizer.bos) < tokenizer.size == backend.get_vocab_size() + 3
    text = "text with <|endoftext|> and <pad> in it, and 中"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert not {tokenizer.pad, tokenizer.unk, end} & set(tokenizer.encode(text))


def test_a_vocabulary_with_unused_ids_is_as_large_as_its_largest_id(tmp_path: Path) -> None:
    backend = Backend(models.WordLevel({"a": 0, "<unk>": 7}, unk_token="<unk>"))
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.size > max(tokenizer.encode("a")[0], tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b""),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"null"),
        ("tokenizer.json", b'{"version": "1.0", "model": {"type": "BPE"'),
        ("tokenizer.json", b"\xff\xfe\x00"),
        ("vocab.txt", b"one\ntwo\n"),
        ("vocab.txt", b""),
        ("vocab.txt", b"[UNK]\n\xff\n"),
    ],
)
def test_a_broken_file_is_named_in_the_error(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HeedfulError, match=name):
        Tokenizer.load(tmp_path / name)


def test_a_missing_file_or_a_directory_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match=r"no tokenizer file .*nothing\.json"):
        Tokenizer.load(tmp_path / "nothing.json")
    with pytest.raises(HeedfulError, match="no tokenizer file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("words", [BERT, CASED])
def test_a_bert_vocab_txt_gives_the_ids_of_transformers(words: list[str], tmp_path: Path) -> None:
    transformers = importlib.import_module("transformers")
    path = vocab_txt(tmp_path / "vocab.txt", words)
    theirs = transformers.BertTokenizer(str(path), do_lower_case=words is BERT)
    ours = Tokenizer.load(path)
    for text in ["The cats, Café!", "中the中 bc b c", "  the\tcat\u2028cats\x00!", "Cafés", "ZZZ the " + "b" + "c" * 120, ""]:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False)
