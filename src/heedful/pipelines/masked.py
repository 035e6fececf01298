"""Masked words guessed from both sides by a BERT."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.data.documents import read_documents
from heedful.data.drops import Drops
from heedful.errors import HeedfulError, UsageError
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.text import Tokenizer
from heedful.text.tokenizer import MASKS

Texts = tuple[list[int], list[int], bool]  # two texts, and whether the second really follows the first


class MaskedModel(EncoderPipeline):
    """Fills in [MASK], and judges whether one text follows another."""

    task: ClassVar[str] = "bert-pretraining"

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_length: int = 128, masked: float = 0.15) -> None:
        super().__init__(model, tokenizer, max_length)
        if tokenizer.mask is None:
            raise UsageError("a masked language model needs a tokenizer with [MASK]")
        self.mask, self.masked = tokenizer.mask, masked

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "masked": self.masked}

    def only(self, outputs: Any, row: int, length: int) -> Any:
        return outputs[0][row, :length], outputs[1][row]

    def fill(self, texts: Sequence[str], top: int = 5) -> list[list[list[tuple[str, float]]]]:
        """For each [MASK] of each text the `top` likeliest tokens with their probabilities, best first."""
        rows = [self.with_masks(text) for text in texts]
        found: list[list[list[tuple[str, float]]]] = [[] for _ in texts]
        for i, tokens, (logits, _) in self.read(rows):
            for place in (tokens == self.mask).nonzero().flatten().tolist():
                best = logits[place].softmax(-1).topk(min(top, self.tokenizer.size))
                words = [self.tokenizer.tokens([token])[0] for token in best.indices.tolist()]
                found[i].append(list(zip(words, best.values.tolist(), strict=True)))
        return found

    def with_masks(self, text: str) -> list[int]:
        """The ids of a text in which [MASK] stands for the mask token, whatever its name in the vocabulary."""
        for name in MASKS[1:]:
            text = text.replace(name, MASKS[0])
        parts = text.split(MASKS[0])
        if len(parts) == 1:
            raise HeedfulError(f"there is no {MASKS[0]} to fill in “{text[:60]}”")
        # The space before a word belongs to its token where tokens tell of spaces: the mask stands for both.
        if self.tokenizer.spaced:
            parts = [*(part.rstrip(" ") for part in parts[:-1]), parts[-1]]
        ids = self.tokenizer.encode(parts[0])
        for part in parts[1:]:
            ids += [self.mask, *self.tokenizer.encode(part)]
        if len(ids) > self.max_length - 2:
            raise HeedfulError(f"a text of {len(ids)} tokens is too long to fill; the model reads {self.max_length - 2}")
        return ids

    def read_examples(self, path: Path, drops: Drops) -> list[Texts]:
        documents = enumerate(read_documents(path, drops))
        return pairs_of([(n, chunk) for n, text in documents for chunk in chunks_of(text, self.tokenizer, self.max_length)])

    @torch.no_grad()
    def predict(self, examples: Sequence[Texts]) -> list[Any]:
        """Of each pair of texts: Σ −log p of the masked tokens, how many, how many right; and the same of the pair."""
        found: list[Any] = [None] * len(examples)
        hidden = [hide(example, self.tokenizer, self.masked, self.model.config.vocab) for example in examples]
        rows = [row.tolist() for row, _, _ in hidden]
        for i, _, (logits, follows) in self.read(rows, [len(first) for first, _, _ in examples]):
            _, where, answers = hidden[i]
            chances = logits[1:-1][torch.from_numpy(where).to(logits.device)].log_softmax(-1)  # between [CLS] and [SEP]
            right = torch.from_numpy(answers.astype(np.int64)).to(logits.device)
            nll = -float(chances.gather(1, right[:, None]).sum())
            correct = int((chances.argmax(-1) == right).sum())
            next_right = bool(follows.argmax() == 0) == examples[i][2]
            found[i] = [nll, len(answers), correct, int(next_right)]
        return found

    def row_of(self, example: Texts) -> tuple[list[int], int | None]:
        return hide(example, self.tokenizer, self.masked, self.model.config.vocab)[0].tolist(), len(example[0])

    def scores(self, examples: Sequence[Texts], outputs: Sequence[Any]) -> dict[str, Any]:
        nll, count, correct, next_right = (sum(row[column] for row in outputs) for column in range(4))
        loss = nll / max(1, count)
        return {
            "masked_accuracy": 100.0 * correct / max(1, count),
            "next_accuracy": 100.0 * next_right / max(1, len(examples)),
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
        }

    def samples(self, examples: Sequence[Texts], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """The first masked word of a few texts, as guessed and as it was."""
        shown = []
        for example in examples[:4]:
            row, where, answers = hide(example, self.tokenizer, self.masked, self.model.config.vocab)
            place = int(where.nonzero()[0][0])
            row = row.copy()
            row[where] = [*answers]
            row[place] = self.mask
            before, after = row[max(0, place - 12) : place], row[place + 1 : place + 13]
            context = f"{self.tokenizer.decode(before.tolist())} [MASK] {self.tokenizer.decode(after.tolist())}"
            guess = self.guess(row.tolist(), place)
            shown.append({"input": context, "output": guess, "reference": self.tokenizer.tokens([int(answers[0])])[0]})
        return shown

    def guess(self, row: list[int], place: int) -> str:
        """The likeliest token at one place of a row."""
        _, _, (logits, _) = next(iter(self.read([row])))
        return self.tokenizer.tokens([int(logits[place + 1].argmax())])[0]


def hide(
    example: Texts, tokenizer: Tokenizer, share: float, vocabulary: int, chance: np.random.Generator | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.uint32]]:
    """Two texts as one row with some tokens hidden (SPEC 14): the row, where they are, and what they were.

    Of the share that is to be guessed 80 % become [MASK], 10 % another token, 10 % stay. Without a generator the choice
    follows from the texts themselves, so that a validation is always the same.
    """
    first, second, _ = example
    row = np.array([*first, tokenizer.eos, *second], dtype=np.uint32)
    chance = chance or np.random.default_rng(zlib.crc32(row.tobytes()))
    open_to = np.arange(len(row)) != len(first)  # not the separator
    count = max(1, round(share * int(open_to.sum())))
    places = np.sort(chance.permutation(open_to.nonzero()[0])[:count])
    where = np.zeros(len(row), dtype=np.bool_)
    where[places] = True
    answers = row[places].copy()
    fate = chance.random(count)
    assert tokenizer.mask is not None
    row[places[fate < 0.8]] = tokenizer.mask
    others = places[(fate >= 0.8) & (fate < 0.9)]
    row[others] = chance.integers(0, vocabulary, len(others))
    return row, where, answers


def chunks_of(document: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]]:
    """A document's sentences joined into chunks, two of which fit into one row with its three special tokens."""
    room = (max_length - 3) // 2
    chunks: list[list[int]] = []
    for ids in tokenizer.encode_batch(document):
        for start in range(0, len(ids), room):
            part = ids[start : start + room]
            if not chunks or len(chunks[-1]) + len(part) > room:
                chunks.append([])
            chunks[-1].extend(part)
    return chunks


def pairs_of(chunks: Sequence[tuple[int, list[int]]]) -> list[Texts]:
    """Chunks (document, ids) as pairs, in turn with the next one and with one from the other half of the text."""
    pairs: list[Texts] = []
    for index, (document, chunk) in enumerate(chunks):
        far_document, far = chunks[(index + len(chunks) // 2) % len(chunks)]
        if index % 2 == 0 and index + 1 < len(chunks) and chunks[index + 1][0] == document:
            pairs.append((chunk, chunks[index + 1][1], True))
        elif far_document != document:
            pairs.append((chunk, far, False))
    return pairs
