"""A tag for every word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from heedful.data.conll import read_conll
from heedful.data.drops import Drops
from heedful.data.words import split_words
from heedful.evaluation import tag_scores
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.text import Tokenizer

Sentence = tuple[list[str], list[str]]  # words and their tags


class Tagger(EncoderPipeline):
    """Gives each word one of `labels`, read off its first token. `split` says how a text is cut into words."""

    task: ClassVar[str] = "tagging"

    def __init__(
        self, model: Bert, tokenizer: Tokenizer, labels: Sequence[str], max_length: int = 128, split: str = "spaces"
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.labels, self.split = list(labels), split

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "labels": self.labels, "split": self.split}

    def words(self, text: str) -> list[str]:
        """A text's words, found as in the text the model learned from."""
        return text.split() if self.split == "spaces" else [word for word, _, _ in split_words(text)]

    def tag(self, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        """The words of each text with their tags."""
        sentences = [self.words(text) for text in texts]
        return [list(zip(words, tags, strict=True)) for words, tags in zip(sentences, self.tag_words(sentences), strict=True)]

    def tag_words(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of words already split."""
        return [row[0] for row in self.predict([(list(words), [""] * len(words)) for words in sentences])]

    def read_examples(self, path: Path, drops: Drops) -> list[Sentence]:
        return list(read_conll(path, drops))

    def predict(self, examples: Sequence[Sentence]) -> list[Any]:
        """Of each sentence: its tags, Σ −log p of the right ones, and how many of these the model knows."""
        known = {label: index for index, label in enumerate(self.labels)}
        pieces = [
            (number, start, ids, first)
            for number, (words, _) in enumerate(examples)
            for start, ids, first in pieces_of(words, self.tokenizer, self.max_length - 2)
        ]
        found: list[Any] = [[[self.labels[0]] * len(words), 0.0, 0] for words, _ in examples]
        for i, _, logits in self.read([ids for _, _, ids, _ in pieces]):
            number, start, _, first = pieces[i]
            chances = logits[1:].log_softmax(-1)  # [CLS] is before the words
            best = chances.argmax(-1).tolist()
            for word, place in enumerate(first, start):
                if place is None:
                    continue
                found[number][0][word] = self.labels[best[place]]
                right = known.get(examples[number][1][word])
                if right is not None:
                    found[number][1] -= float(chances[place, right])
                    found[number][2] += 1
        return found

    def row_of(self, example: Sentence) -> tuple[list[int], int | None]:
        return pieces_of(example[0], self.tokenizer, self.max_length - 2)[0][1], None

    def scores(self, examples: Sequence[Sentence], outputs: Sequence[Any]) -> dict[str, Any]:
        own = tag_scores([row[0] for row in outputs], [tags for _, tags in examples])
        return {**own, "loss": sum(row[1] for row in outputs) / max(1, sum(row[2] for row in outputs))}

    def samples(self, examples: Sequence[Sentence], outputs: Sequence[Any]) -> list[dict[str, str]]:
        return [
            {"input": " ".join(words), "output": " ".join(row[0]), "reference": " ".join(tags)}
            for (words, tags), row in zip(examples, outputs, strict=True)
        ]


def pieces_of(words: Sequence[str], tokenizer: Tokenizer, room: int) -> list[tuple[int, list[int], list[int | None]]]:
    """A sentence in pieces of at most `room` tokens: the first word of each, its ids, and where each word's first token is.

    A word of which the tokenizer makes nothing has no first token (None); one longer than the room is cut.
    """
    ids, word_of = tokenizer.encode_words(words)
    tokens: list[list[int]] = [[] for _ in words]
    for token, word in zip(ids, word_of, strict=True):
        tokens[word].append(token)
    pieces: list[tuple[int, list[int], list[int | None]]] = []
    for number, own in enumerate(tokens):
        own = own[:room]
        if not pieces or len(pieces[-1][1]) + len(own) > room:
            pieces.append((number, [], []))
        _, row, first = pieces[-1]
        first.append(len(row) if own else None)
        row.extend(own)
    return pieces
