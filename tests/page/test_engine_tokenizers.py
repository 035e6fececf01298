"""Tokenizers in the browser give the same ids, spans and text as in Python, on text of any script and of none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from node_engine import ask_engine
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from heedful.data.words import split_words
from heedful.errors import HeedfulError
from heedful.page.browser_tokenizer import browser_tokenizer
from heedful.text import Tokenizer
from heedful.text.sentencepiece import read_sentencepiece, unigram_backend
from heedful.text.sentences import split_text

NASTY = [
    "Hello world, don't 123 'll we'll", "ein Haus über dem Fluß  \n\t x", "日本語のテキスト と 漢字", "שלום עולם مرحبا بالعالم",
    "e\u0301a\u0308 café e\u0323\u0307", "👩‍👩‍👧 😀🏳️‍🌈", "<s> </s> <de> <pad> [MASK] [CLS]<de>x",
    "\x00\x01\x85\xa0\u2028\ufeff\u200b a",
    "각 ㄱ가 \u1100\u1161\u11a8", "ΑΣ ΣΟΦΟΣ İstanbul ſ K", "a" * 300, "", "   ", "...!!?? a.b,c", "\u0958 \u09c7\u09be ﬁ ① ²",
    "\U0001f1e6\U00020000\U0002f800", "<zh-Hant><de> <de>", "don't do not can't , . ' s n't",
]  # fmt: skip
CALL = """
  const { Tokenizer } = await load("tokenizer.js");
  const tokenizer = new Tokenizer(given[0]);
  return given[1].map((text) => {
    const { ids, offsets } = tokenizer.encodeWithOffsets(text);
    return { ids, offsets, text: tokenizer.decode(ids), tokens: tokenizer.tokens(ids) };
  });
"""


def random_texts(seed: int, count: int) -> list[str]:
    """Letters, marks, spaces, tags and characters of any plane."""
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 30)):
            kind = rng.random()
            if kind < 0.4:
                parts.append(rng.choice("abcdehlo wrdtinse 'é"))
            elif kind < 0.5:
                parts.append(rng.choice(" \t\n\r\u00a0\u3000"))
            elif kind < 0.6:
                parts.append(chr(rng.choice([rng.randint(0x300, 0x36F), rng.randint(0x591, 0x5BD), rng.randint(0x900, 0x970)])))
            elif kind < 0.7:
                parts.append(rng.choice(["<de>", "</s>", "<s>", "[MASK]", "##"]))
            else:
                # Of characters that Unicode added lately, browsers and the library under Python know different properties.
                code = rng.choice([rng.randint(0, 0x2FFF), rng.randint(0x3000, 0x9FFF), rng.randint(0x1F300, 0x1F6FF)])
                parts.append("" if 0x1AB0 <= code <= 0x1AFF else chr(code))
        texts.append("".join(parts))
    return texts


TEXTS = [*NASTY, *random_texts(1, 250)]


def bert_vocabulary(folder: Path, lower: bool) -> Path:
    path = folder / f"vocab-{lower}.txt"
    known = {character.lower() if lower else character for text in NASTY for character in text if not character.isspace()}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(known), *(f"##{c}" for c in "abcdehlorwtins0123"), "world"]
    path.write_text("\n".join(dict.fromkeys(words)) + "\n", encoding="utf-8")
    return path


def like_gpt2(prefix: bool) -> Tokenizer:
    """A byte-level BPE as GPT-2's, some with a space before the text, with added tokens of every kind."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    backend.train_from_iterator(TEXTS, trainer)
    backend.add_tokens([
        AddedToken("hello", single_word=True), AddedToken("<de>", lstrip=True), AddedToken("<s>", rstrip=True, normalized=False)
    ])  # fmt: skip
    return Tokenizer(backend)


def like_gpt4() -> Tokenizer:
    """A BPE with a pattern of its own, whole words first, and a normalizer."""
    backend = Backend(models.BPE(unk_token="?", fuse_unk=True, ignore_merges=True))
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    backend.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.Digits(individual_digits=True)
    ])  # fmt: skip
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["?"], show_progress=False)
    backend.train_from_iterator([*NASTY[:8], *TEXTS[30:90]], trainer)
    return Tokenizer(backend)


def split_in(behavior: Any) -> Tokenizer:
    """Whole words between punctuation, with one of the behaviours of splitting."""
    backend = Backend(models.WordLevel({"?": 0, "Hello": 1, "...": 2, "a.": 3, ".b": 4}, unk_token="?"))
    backend.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    steps = [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Split(Regex(r"[.,']|\d"), behavior),
        pre_tokenizers.Punctuation(behavior),
    ]
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return Tokenizer(backend)


def like_marian(folder: Path, rule: str) -> Tokenizer:
    """SentencePiece's unigrams with its table of normal forms, as `heedful import` reads them."""
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is missing; pip install 'heedful[dev]'")
    prefix = folder / rule
    texts = iter([text.replace("\0", "").replace("\n", " ") for text in TEXTS[:120] if text.strip()])
    library.SentencePieceTrainer.train(
        sentence_iterator=texts, model_prefix=str(prefix), vocab_size=900, hard_vocab_limit=False, num_threads=1, minloglevel=2,
        normalization_rule_name=rule, character_coverage=0.98, remove_extra_whitespaces=rule != "nmt_nfkc",
    )  # fmt: skip
    pieces = read_sentencepiece(prefix.with_suffix(".model"))
    names = ["</s>", "<unk>", *(name for name in pieces.scores if name not in ("</s>", "<unk>")), "▁elsewhere", ">>de<<", "<pad>"]
    numbers = {name: number for number, name in enumerate(names)}
    return Tokenizer(unigram_backend(pieces, numbers, "<unk>", ["</s>", "<pad>", "<unk>"]), {"bos": "<pad>"})


def like_t5(fallback: bool, scheme: Any) -> Tokenizer:
    """Unigrams whose words the pre-tokenizer marks, with bytes for what has no piece."""
    backend = Backend(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first")
    backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(NASTY[:4] * 4, trainer)
    if fallback:
        content = json.loads(backend.to_str())
        content["model"]["vocab"] += [[f"<0x{byte:02X}>", -50.0] for byte in range(256)]
        content["model"]["byte_fallback"] = True
        backend = Backend.from_str(json.dumps(content))
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)])
    backend.add_tokens(["<de>"])
    return Tokenizer(backend)


def like_llama() -> Tokenizer:
    """A BPE over whole texts, with bytes for characters that it lacks."""
    backend = Backend(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False
    )
    marked = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.train_from_iterator([marked.normalize_str(text) for text in NASTY[:3]], trainer)
    content = json.loads(backend.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    backend = Backend.from_str(json.dumps(content))
    backend.normalizer = marked
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    return Tokenizer(backend)


def tokenizers_of(name: str, folder: Path) -> list[Tokenizer]:
    tags = ["<de>", "<zh-Hant>"]
    if name in ("bpe", "wordpiece", "char", "byte"):
        return [Tokenizer.train(name, TEXTS[:150], 500, tags, masked=masked) for masked in (False, True)]
    if name == "vocab.txt":
        return [Tokenizer.load(bert_vocabulary(folder, lower)) for lower in (True, False)]
    if name == "sentencepiece":
        return [like_marian(folder, rule) for rule in ("nmt_nfkc", "nfkc_cf", "identity")]
    if name == "unigram":
        return [like_t5(True, "always"), like_t5(False, "first"), like_t5(False, "never"), like_llama()]
    if name == "gpt2":
        return [like_gpt2(True), like_gpt2(False), like_gpt4()]
    return [split_in(behavior) for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")]


@pytest.mark.parametrize("name", ["bpe", "wordpiece", "char", "byte", "vocab.txt", "gpt2", "split", "sentencepiece", "unigram"])
def test_every_tokenizer_equals_pythons(name: str, tmp_path: Path) -> None:
    tokenizers = tokenizers_of(name, tmp_path)
    answers = ask_engine(tmp_path, [[CALL, browser_tokenizer(one, name), TEXTS] for one in tokenizers])
    for tokenizer, rows in zip(tokenizers, answers, strict=True):
        assert isinstance(rows, list), rows
        for text, row in zip(TEXTS, rows, strict=True):
            ids, spans = tokenizer.encode_with_offsets(text)
            units = [0]
            for character in text:
                units.append(units[-1] + 1 + (ord(character) > 0xFFFF))  # JavaScript counts in UTF-16
            assert row["ids"] == ids, text
            assert row["text"] == tokenizer.decode(ids), text
            assert row["tokens"] == tokenizer.tokens(ids), text
            assert row["offsets"] == [[units[start], units[end]] for start, end in spans], text


def test_words_are_those_of_python(tmp_path: Path) -> None:
    body = """
      const { wordSpans } = await load("words.js");
      return given[0].map((text) => wordSpans(text).map(([start, end]) => text.slice(start, end)));
    """
    (found,) = ask_engine(tmp_path, [[body, TEXTS]])
    assert found == [[word for word, _, _ in split_words(text)] for text in TEXTS]


def test_white_space_is_that_of_python(tmp_path: Path) -> None:
    texts = [f"a{chr(code)}b{chr(code)}" for code in range(0x3100) if not 0xD800 <= code <= 0xDFFF]
    body = "const { spaced, strip } = await load('words.js'); return given[0].map((text) => [spaced(text), strip(text)])"
    (found,) = ask_engine(tmp_path, [[body, texts]])
    assert found == [[text.split(), text.strip()] for text in texts]


@pytest.mark.parametrize("change", ["normalizer", "pattern", "model"])
def test_a_tokenizer_that_the_engine_lacks_is_refused_in_words(change: str) -> None:
    tokenizer = Tokenizer.train("bpe", ["some text"], 300)
    if change == "normalizer":
        tokenizer.backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Nmt()])
    elif change == "pattern":
        tokenizer.backend.pre_tokenizer = pre_tokenizers.Split(Regex("(?i:a)"), "isolated")
    else:
        tokenizer.backend.model = models.BPE(dropout=0.5)
    with pytest.raises(HeedfulError, match="the tokenizer of x cannot be run by the page"):
        browser_tokenizer(tokenizer, "the tokenizer of x")


def test_a_text_is_cut_into_the_same_sentences_as_in_python(tmp_path: Path) -> None:
    texts = [
        "A dog runs. It barks! Why? No idea.", "„Komm!“ Er ging. Dann kam der 15. November 2026.",
        "Dr. Smith met Mr. Jones at 3 p.m. on Monday.", "J. S. Bach wrote it. z. B. Messen.", "犬が走る。猫も走る！なぜ？",
        "Он пришёл. Она ушла.", "one\r\n\n  two \u2028three. ", "३. यह ठीक है। हाँ", "", " \n", "version 3.11 is out. été. Été.",
        *(text + ". " + text.title() for text in random_texts(5, 200)),
    ]  # fmt: skip
    body = """
      const { splitText } = await load("../sentences.js");
      return given[0].map((text) => splitText(text).map((part) => [part.text, part.sentence]));
    """
    (found,) = ask_engine(tmp_path, [[body, texts]])
    assert [[(part, is_sentence) for part, is_sentence in parts] for parts in found] == [split_text(text) for text in texts]
