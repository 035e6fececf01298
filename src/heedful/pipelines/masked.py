"""Masked words guessed from the words on both sides, by a BERT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from heedful.data.documents import read_documents
from heedful.data.drops import Drops
from heedful.data.masking import mask_tokens
from heedful.data.sentence_pairs import SentencePair, chunks_of, pairs_of
from heedful.errors import InputError, UsageError
from heedful.evaluation.perplexity import perplexity
from heedful.evaluation.score_names import Sample
from heedful.jobs.options import FillOptions, Options
from heedful.jobs.results import Filling, Guess
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import Texts, as_list, options_of
from heedful.settings import Json, Positions, Share
from heedful.text import Tokenizer
from heedful.text.tokenizer import MASKS


class MaskedPrediction(NamedTuple):
    """How well the model predicts the masked tokens of a pair of texts, and whether the second follows the first."""

    nll: float  # Σ −log p of the masked tokens
    tokens: int  # masked
    right: int  # of them
    next_right: bool


class MaskedModel(EncoderPipeline[SentencePair, MaskedPrediction]):
    """Fills in [MASK], and judges whether one text follows another."""

    task: ClassVar[str] = "bert-pretraining"

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_length: Positions = 128, masked: Share = 0.15) -> None:
        super().__init__(model, tokenizer, max_length)
        if tokenizer.mask is None:
            raise UsageError("a masked language model needs a tokenizer with [MASK]")
        self.mask, self.masked = tokenizer.mask, masked

    @property
    def settings(self) -> dict[str, Json]:
        return {**super().settings, "masked": self.masked}

    def logits(
        self, rows: Sequence[Sequence[int]], firsts: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """For each row: its index, its framed tokens (L,), the logits of every token (L, V) and of the next sentence (2,)."""
        for numbers, tokens, segments, mask in self.framed(rows, firsts):
            words, follows = self.model(tokens, segments, mask)
            for place, i in enumerate(numbers):
                length = len(rows[i]) + 2
                yield i, tokens[place, :length], words[place, :length], follows[place]

    @overload
    def fill(self, texts: str, **options: int) -> Sequence[Sequence[Guess]]: ...

    @overload
    def fill(self, texts: Texts, **options: int) -> list[Sequence[Sequence[Guess]]]: ...

    def fill(self, texts: str | Texts, **options: int) -> Sequence[Sequence[Guess]] | list[Sequence[Sequence[Guess]]]:
        """For each [MASK] of a text, or of each of several, the most probable tokens (`FillOptions`: `top`)."""
        several, alone = as_list(texts)
        found = [result.masks for result in self.run(several, FillOptions.of(**options))]
        return found[0] if alone else found

    def run(self, inputs: Sequence[str], options: Options | None = None) -> list[Filling]:
        top = min(options_of(FillOptions, options).top, self.tokenizer.size)
        rows = [self.with_masks(text, index) for index, text in enumerate(inputs)]
        found: list[list[list[Guess]]] = [[] for _ in inputs]
        for i, tokens, logits, _ in self.logits(rows):
            for place in (tokens == self.mask).nonzero().flatten().tolist():
                best = logits[place].softmax(-1).topk(top)
                words = [self.tokenizer.tokens([token])[0] for token in best.indices.tolist()]
                found[i].append([Guess(word, p) for word, p in zip(words, best.values.tolist(), strict=True)])
        return [Filling(text, masks) for text, masks in zip(inputs, found, strict=True)]

    def with_masks(self, text: str, index: int = 0) -> list[int]:
        """The ids of a text in which [MASK] stands for the mask token, whatever its name in the vocabulary.

        `index` is its number among several texts.
        """
        for name in MASKS[1:]:
            text = text.replace(name, MASKS[0])
        parts = text.split(MASKS[0])
        if len(parts) == 1:
            raise InputError(f"there is no {MASKS[0]} to fill in “{text[:60]}”", index)
        # In vocabularies whose tokens include the space before a word, the mask replaces the space, too.
        if self.tokenizer.spaced:
            parts = [*(part.rstrip(" ") for part in parts[:-1]), parts[-1]]
        ids = self.tokenizer.encode(parts[0])
        for part in parts[1:]:
            ids += [self.mask, *self.tokenizer.encode(part)]
        if len(ids) > self.max_length - 2:
            raise InputError(f"a text of {len(ids):,} tokens is too long; the model takes at most {self.max_length - 2:,}", index)
        return ids

    def read_examples(self, path: Path, drops: Drops) -> list[SentencePair]:
        documents = enumerate(read_documents(path, drops))
        return pairs_of([(n, chunk) for n, text in documents for chunk in chunks_of(text, self.tokenizer, self.max_length)])

    def predict(self, examples: Sequence[SentencePair]) -> list[MaskedPrediction]:
        found = [MaskedPrediction(0.0, 0, 0, False)] * len(examples)
        hidden = [mask_tokens(example, self.tokenizer, self.masked, self.model.config.vocab) for example in examples]
        rows = [row.tolist() for row, _, _ in hidden]
        for i, _, logits, follows in self.logits(rows, [len(first) for first, _, _ in examples]):
            _, where, answers = hidden[i]
            log_probabilities = logits[1:-1][torch.from_numpy(where).to(logits.device)].log_softmax(-1)  # between [CLS] and [SEP]
            right = torch.from_numpy(answers.astype(np.int64)).to(logits.device)
            nll = -float(log_probabilities.gather(1, right[:, None]).sum())
            correct = int((log_probabilities.argmax(-1) == right).sum())
            next_right = bool(follows.argmax() == 0) == examples[i][2]
            found[i] = MaskedPrediction(nll, len(answers), correct, next_right)
        return found

    def row_of(self, example: SentencePair) -> tuple[list[int], int | None]:
        return mask_tokens(example, self.tokenizer, self.masked, self.model.config.vocab)[0].tolist(), len(example[0])

    def scores(self, examples: Sequence[SentencePair], outputs: Sequence[MaskedPrediction]) -> dict[str, float]:
        count = max(1, sum(found.tokens for found in outputs))
        loss = sum(found.nll for found in outputs) / count
        return {
            "masked_accuracy": 100.0 * sum(found.right for found in outputs) / count,
            "next_accuracy": 100.0 * sum(found.next_right for found in outputs) / max(1, len(examples)),
            "loss": loss,
            "perplexity": perplexity(loss),
        }

    def samples(self, examples: Sequence[SentencePair], outputs: Sequence[MaskedPrediction]) -> list[Sample]:
        """The first masked word of a few texts, as guessed and as it was."""
        shown = []
        for example in examples[:4]:
            row, where, answers = mask_tokens(example, self.tokenizer, self.masked, self.model.config.vocab)
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
        """The most probable token at one position of a row."""
        _, _, logits, _ = next(self.logits([row]))
        return self.tokenizer.tokens([int(logits[place + 1].argmax())])[0]
