"""A tag for every word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, overload

from heedful.data.conll import read_conll
from heedful.data.drops import Drops
from heedful.data.tagged_words import TaggedSentence, pieces_of
from heedful.data.words import split_words
from heedful.evaluation.classification import tag_scores
from heedful.evaluation.score_names import Sample
from heedful.jobs.options import Options
from heedful.jobs.results import TaggedWord, Tagging
from heedful.models.bert import Bert
from heedful.pipelines.classifier import check_labels
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import Texts, as_list
from heedful.settings import Json, Positions
from heedful.text import Tokenizer

WordSplit = Literal["spaces", "words"]


class TagPrediction(NamedTuple):
    """The prediction for a sentence."""

    tags: list[str]
    nll: float  # Σ −log p of the right tags, where the model knows them
    known: int  # number of tags that the model knows


class Tagger(EncoderPipeline[TaggedSentence, TagPrediction]):
    """Gives each word one of `labels`, read off its first token. `split` says how a text is cut into words."""

    task: ClassVar[str] = "tagging"

    def __init__(
        self, model: Bert, tokenizer: Tokenizer, labels: Sequence[str], max_length: Positions = 128, split: WordSplit = "spaces"
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        check_labels(labels, model.config.classes)
        self.labels, self.split = list(labels), split

    @property
    def settings(self) -> dict[str, Json]:
        return {**super().settings, "labels": self.labels, "split": self.split}

    def words(self, text: str) -> list[str]:
        """The words of a text, split as in the training data."""
        return text.split() if self.split == "spaces" else [word for word, _, _ in split_words(text)]

    @overload
    def tag(self, texts: str) -> Sequence[TaggedWord]: ...

    @overload
    def tag(self, texts: Texts) -> list[Sequence[TaggedWord]]: ...

    def tag(self, texts: str | Texts) -> Sequence[TaggedWord] | list[Sequence[TaggedWord]]:
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
        return [found.tags for found in self.predict([(list(words), [""] * len(words)) for words in sentences])]

    def read_examples(self, path: Path, drops: Drops) -> list[TaggedSentence]:
        return list(read_conll(path, drops))

    def predict(self, examples: Sequence[TaggedSentence]) -> list[TagPrediction]:
        known = {label: index for index, label in enumerate(self.labels)}
        pieces = [
            (number, start, ids, first)
            for number, (words, _) in enumerate(examples)
            for start, ids, first in pieces_of(words, self.tokenizer, self.max_length - 2)
        ]
        tags = [[self.labels[0]] * len(words) for words, _ in examples]
        nll, count = [0.0] * len(examples), [0] * len(examples)
        for i, logits in self.outputs([ids for _, _, ids, _ in pieces]):
            number, start, _, first = pieces[i]
            log_probabilities = logits[1:].log_softmax(-1)  # [CLS] is before the words
            best = log_probabilities.argmax(-1).tolist()
            for word, place in enumerate(first, start):
                if place is None:
                    continue
                tags[number][word] = self.labels[best[place]]
                right = known.get(examples[number][1][word])
                if right is not None:
                    nll[number] -= float(log_probabilities[place, right])
                    count[number] += 1
        return [TagPrediction(*found) for found in zip(tags, nll, count, strict=True)]

    def unknown_labels(self, example: TaggedSentence) -> list[str]:
        return [tag for tag in example[1] if tag not in self.labels]

    def row_of(self, example: TaggedSentence) -> tuple[list[int], int | None]:
        return pieces_of(example[0], self.tokenizer, self.max_length - 2)[0][1], None

    def scores(self, examples: Sequence[TaggedSentence], outputs: Sequence[TagPrediction]) -> dict[str, float]:
        own = tag_scores([found.tags for found in outputs], [tags for _, tags in examples])
        return {**own, "loss": sum(found.nll for found in outputs) / max(1, sum(found.known for found in outputs))}

    def samples(self, examples: Sequence[TaggedSentence], outputs: Sequence[TagPrediction]) -> list[Sample]:
        return [
            {"input": " ".join(words), "output": " ".join(found.tags), "reference": " ".join(tags)}
            for (words, tags), found in zip(examples, outputs, strict=True)
        ]
