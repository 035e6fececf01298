"""Tokenizers: trained on the user's own text, or loaded from a ready-made vocabulary."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from heedful.errors import HeedfulError, UsageError
from heedful.text.byte_names import BYTE_OF, shown_bytes
from heedful.text.sentencepiece import SPACE, is_unigram, train_sentencepiece

TOKENIZER_KINDS = ("bpe", "wordpiece", "sentencepiece", "char", "byte", "word")
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
# Names used in ready-made vocabularies for padding, unknown, begin and end.
ALIASES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "bos": ("<s>", "[CLS]", "<bos>", "<|startoftext|>"),
    "eos": ("</s>", "[SEP]", "<eos>", "<|endoftext|>"),
}
MASKS = ("[MASK]", "<mask>")  # for masked language models; optional


class Tokenizer:
    """Text ↔ token ids, around a Hugging Face `tokenizers` object. Encoding never adds special tokens."""

    def __init__(self, backend: Backend, roles: Mapping[str, str] | None = None) -> None:
        """`roles` gives the token of a role (pad, unk, bos, eos) if it has none of the usual names."""
        self.backend = backend
        self.roles = dict(roles or {})
        backend.no_padding()
        backend.no_truncation()
        # A text that happens to contain "</s>" is encoded as text, not as the end of a sentence.
        backend.encode_special_tokens = True
        found: dict[str, int] = {}
        for role, usual in ALIASES.items():
            names = (self.roles[role],) if role in self.roles else usual
            name = next((name for name in names if backend.token_to_id(name) is not None), None)
            if name is None:
                name = names[0]
                backend.add_special_tokens([AddedToken(name, special=True)])
            found[role] = int(backend.token_to_id(name) or 0)
        self.pad, self.unk, self.bos, self.eos = found["pad"], found["unk"], found["bos"], found["eos"]
        masks = [backend.token_to_id(name) for name in MASKS]
        self.mask: int | None = next((index for index in masks if index is not None), None)

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], size: int, tags: Sequence[str] = (), masked: bool = False) -> Tokenizer:
        """Learn a vocabulary of at most `size` tokens. `tags`, such as <de>, are strings that always become one token.

        `masked` adds the special token [MASK].
        """
        if kind not in TOKENIZER_KINDS:
            raise UsageError(f"tokenizer.kind must be one of {', '.join(TOKENIZER_KINDS)}, not '{kind}'")
        names = (*SPECIALS, MASKS[0]) if masked else SPECIALS
        specials = [AddedToken(name, special=True, normalized=False) for name in names]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        learned = size - len(tags)  # the tags are added last
        minimum = len(specials) + (len(alphabet) if kind in ("bpe", "sentencepiece") else 2)
        if kind != "byte" and learned < minimum:
            raise UsageError(f"tokenizer.size {size} is too small for {kind}: it starts from {minimum + len(tags)} tokens")
        if kind in ("bpe", "byte"):
            # Byte-level: any text can be encoded, and decodes to itself.
            backend = Backend(models.BPE())
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "bpe")
            backend.decoder = decoders.ByteLevel()
            byte_trainer = trainers.BpeTrainer(
                vocab_size=learned if kind == "bpe" else len(specials) + len(alphabet),
                initial_alphabet=sorted(alphabet),
                special_tokens=specials,
                show_progress=False,
            )
            backend.train_from_iterator(texts if kind == "bpe" else [], byte_trainer)
        elif kind == "wordpiece":
            backend = _train_wordpiece(list(texts), learned, specials)
        elif kind == "sentencepiece":
            backend = train_sentencepiece(texts, learned, names)
        else:
            counts: Counter[str] = Counter()
            for text in texts:
                counts.update(text if kind == "char" else text.split())
            kept = sorted(token for token, _ in counts.most_common(learned - len(names)) if token not in names)
            vocabulary = {token: index for index, token in enumerate([*names, *kept])}
            backend = Backend(models.WordLevel(vocabulary, unk_token="<unk>"))
            if kind == "char":
                backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
                backend.decoder = decoders.Fuse()
            else:  # without a decoder, words are joined by spaces
                backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
            backend.add_special_tokens(specials)
        backend.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
        return cls(backend)

    @classmethod
    def load(cls, path: str | Path, roles: Mapping[str, str] | None = None) -> Tokenizer:
        """Load a `tokenizer.json` or a BERT `vocab.txt`."""
        path = Path(path)
        if not path.is_file():
            raise HeedfulError(f"there is no tokenizer file {path}")
        try:
            if path.suffix == ".txt":
                return cls(_bert(path), roles)
            return cls(Backend.from_str(path.read_text(encoding="utf-8")), roles)
        except HeedfulError:
            raise
        except UnicodeDecodeError as error:
            raise HeedfulError(f"{path} is not a tokenizer.json or a vocab.txt: it is not UTF-8 text") from error
        except Exception as error:  # the library raises bare Exception
            raise HeedfulError(f"{path} is not a tokenizer.json or a vocab.txt: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write `tokenizer.json`."""
        Path(path).write_text(json.dumps(json.loads(self.backend.to_str()), ensure_ascii=False), encoding="utf-8")

    @property
    def size(self) -> int:
        """Number of ids, special tokens included; a ready-made vocabulary may leave some of them unused."""
        return max(self.backend.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, text: str) -> list[int]:
        """Text → ids, without begin or end token."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts; the library may run in parallel."""
        return [list(e.ids) for e in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Text → ids, and for each the span [start, end) of characters that it covers."""
        found = self.backend.encode(text, add_special_tokens=False)
        return list(found.ids), [(int(start), int(end)) for start, end in found.offsets]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Words → ids, and for each the index of its word."""
        rows = self.encode_batch([f" {word}" if index and self.spaced else word for index, word in enumerate(words)])
        return [token for row in rows for token in row], [index for index, row in enumerate(rows) for _ in row]

    @property
    def spaced(self) -> bool:
        """Whether the space before a word is part of its tokens, as in byte-level BPE."""
        return isinstance(self.backend.pre_tokenizer, pre_tokenizers.ByteLevel)

    def halves(self) -> NDArray[np.int64]:
        """The two tokens that each token was merged from, (size, 2); −1 for a token that is not a merge. Only BPE has merges."""
        found = np.full((self.size, 2), -1, dtype=np.int64)
        model = json.loads(self.backend.to_str())["model"]
        ids = self.backend.get_vocab(with_added_tokens=False)
        for left, right in model.get("merges", []):
            found[ids[left + right]] = ids[left], ids[right]
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Ids → text, without special tokens."""
        return str(self.backend.decode(list(ids), skip_special_tokens=True))

    def continuation(self, ids: Sequence[int]) -> str:
        """Ids that continue a text → the text to append: unlike `decode`, it keeps the space before a first word."""
        first = self.backend.id_to_token(ids[0]) if ids and is_unigram(self.backend) else None
        return f"{' ' if first and first.startswith(SPACE) else ''}{self.decode(ids)}"

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each token as text, for display. If a token ends inside a character, its bytes are shown as numbers."""
        names = [str(self.backend.id_to_token(token)) for token in ids]
        if not isinstance(self.backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            return names
        texts = [self.decode([token]) or name for token, name in zip(ids, names, strict=True)]
        cut = ["\ufffd" in text and BYTE_OF.keys() >= set(name) for text, name in zip(texts, names, strict=True)]
        return [shown_bytes(name) if inside else text for text, name, inside in zip(texts, names, cut, strict=True)]


def _train_wordpiece(texts: list[str], size: int, specials: list[AddedToken]) -> Backend:
    """A WordPiece vocabulary that is the same in every process.

    By default the trainer numbers the pieces "##c" in the order of a hash table, which differs between processes, and
    breaks ties by these numbers. So they are passed as special tokens first, in order, and are plain tokens in the result.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(unicodedata.normalize("NFC", text))
    kept = (size - len(specials)) // 2  # characters; each needs one piece to begin a word and one to continue it
    frequent = sorted((character for character in counts if not character.isspace()), key=lambda c: (-counts[c], c))[:kept]
    within = sorted(c for c in frequent if c.isalnum() or (ord(c) > 127 and not unicodedata.category(c).startswith("P")))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        initial_alphabet=sorted(frequent),
        limit_alphabet=kept,
        special_tokens=[*specials, *(f"##{character}" for character in within)],
        show_progress=False,
    )

    def around(model: models.WordPiece) -> Backend:
        backend = Backend(model)
        backend.normalizer = normalizers.NFC()
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        return backend

    learning = around(models.WordPiece(unk_token="<unk>"))
    learning.train_from_iterator(texts, trainer)
    backend = around(models.WordPiece(learning.get_vocab(), unk_token="<unk>", max_input_chars_per_word=200))
    backend.add_special_tokens(specials)
    return backend


def _bert(path: Path) -> Backend:
    """A BERT vocab.txt; text is lower-cased when the vocabulary has no upper-case letter."""
    # Not splitlines, because a token may contain another line separator.
    words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    vocabulary = {word: index for index, word in enumerate(words)}
    if "[UNK]" not in vocabulary:
        raise HeedfulError(f"{path} has no [UNK] line, so it is not a BERT vocabulary")
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    cased = any(word != word.lower() for word in words if not word.startswith("["))
    backend.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([word for word in words if word.startswith("[") and word.endswith("]") and len(word) > 2])
    return backend
