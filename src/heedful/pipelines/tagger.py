"""A tag for every word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

from heedful.data.conll import read_conll
from heedful.data.drops import Drops
from heedful.data.tagged_words import TaggedSentence, pieces_of
from heedful.data.words import split_words
from heedful.evaluation.classification import tag_scores
from heedful.jobs.options import Options
from heedful.jobs.results import TaggedWord, Tagging
from heedful.models.bert import Bert
from heedful.pipelines.classifier import check_labels
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import as_list
from heedful.settings import Positions
from heedful.text import Tokenizer

WordSplit = Literal["spaces", "words"]


class Tagger(EncoderPipeline[TaggedSentence]):
    """Gives each word one of `labels`, read off its first token. `split` says how a text is cut into words."""

    task: ClassVar[str] = "tagging"

    def __init__(
        self, model: Bert, tokenizer: Tokenizer, labels: Sequence[str], max_length: Positions = 128, split: WordSplit = "spaces"
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        check_labels(labels, model.config.classes)
        self.labels, self.split = list(labels), split

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "labels": self.labels, "split": self.split}

    def words(self, text: str) -> list[str]:
        """A text's words, found as in the text the model learned from."""
        return text.split() if self.split == "spaces" else [word for word, _, _ in split_words(text)]

    @overload
    def tag(self, texts: str) -> Sequence[TaggedWord]: ...  # type: ignore[overload-overlap]  # a str is also a sequence

    @overload
    def tag(self, texts: Sequence[str]) -> list[Sequence[TaggedWord]]: ...

    def tag(self, texts: str | Sequence[str]) -> Sequence[TaggedWord] | list[Sequence[TaggedWord]]:
        """The words of a text, or of each of several, with their tags."""
        several, alone = as_list(texts)
        found = [result.words for result in self.run(several)]
        return found[0] if alone else found

    def run(self, inputs: Sequence[str], options: Options | None = None) -> list[Tagging]:
        sentences = [self.words(text) for text in inputs]
        return [
            Tagging(text, [TaggedWord(word, tag) for word, tag in zip(words, tags, strict=True)])
            for text, words, tags in zip(inputs, sentences, self.tag_words(sentences), strict=True)
        ]

    def tag_words(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of words already split."""
        return [row[0] for row in self.predict([(list(words), [""] * len(words)) for words in sentences])]

    def read_examples(self, path: Path, drops: Drops) -> list[TaggedSentence]:
        return list(read_conll(path, drops))

    def predict(self, examples: Sequence[TaggedSentence]) -> list[Any]:
        """Of each sentence: its tags, Σ −log p of the right ones, and how many of these the model knows."""
        known = {label: index for index, label in enumerate(self.labels)}
        pieces = [
            (number, start, ids, first)
            for number, (words, _) in enumerate(examples)
            for start, ids, first in pieces_of(words, self.tokenizer, self.max_length - 2)
        ]
        found: list[Any] = [[[self.labels[0]] * len(words), 0.0, 0] for words, _ in examples]
        for i, _, logits in self.outputs([ids for _, _, ids, _ in pieces]):
            number, start, _, first = pieces[i]
            log_probabilities = logits[1:].log_softmax(-1)  # [CLS] is before the words
            best = log_probabilities.argmax(-1).tolist()
            for word, place in enumerate(first, start):
                if place is None:
                    continue
                found[number][0][word] = self.labels[best[place]]
                right = known.get(examples[number][1][word])
                if right is not None:
                    found[number][1] -= float(log_probabilities[place, right])
                    found[number][2] += 1
        return found

    def unknown_labels(self, example: TaggedSentence) -> list[str]:
        return [tag for tag in example[1] if tag not in self.labels]

    def row_of(self, example: TaggedSentence) -> tuple[list[int], int | None]:
        return pieces_of(example[0], self.tokenizer, self.max_length - 2)[0][1], None

    def scores(self, examples: Sequence[TaggedSentence], outputs: Sequence[Any]) -> dict[str, Any]:
        own = tag_scores([row[0] for row in outputs], [tags for _, tags in examples])
        return {**own, "loss": sum(row[1] for row in outputs) / max(1, sum(row[2] for row in outputs))}

    def samples(self, examples: Sequence[TaggedSentence], outputs: Sequence[Any]) -> list[dict[str, str]]:
        return [
            {"input": " ".join(words), "output": " ".join(row[0]), "reference": " ".join(tags)}
            for (words, tags), row in zip(examples, outputs, strict=True)
        ]
