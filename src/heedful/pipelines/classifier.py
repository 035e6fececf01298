"""The class of a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, overload

from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.errors import UsageError
from heedful.evaluation.classification import classification_scores
from heedful.evaluation.score_names import Sample
from heedful.jobs.options import ClassifyOptions, Options
from heedful.jobs.results import Classification, Label
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import Texts, as_list, options_of
from heedful.settings import Json, Positions
from heedful.text import Tokenizer

Prediction = tuple[str, float | None]  # the most probable label, and −log p of the right one


class Classifier(EncoderPipeline[tuple[str, str], Prediction]):
    """Sorts texts into `labels`."""

    task: ClassVar[str] = "classification"

    def __init__(self, model: Bert, tokenizer: Tokenizer, labels: Sequence[str], max_length: Positions = 128) -> None:
        super().__init__(model, tokenizer, max_length)
        check_labels(labels, model.config.classes)
        self.labels = list(labels)

    @property
    def settings(self) -> dict[str, Json]:
        return {**super().settings, "labels": self.labels}

    @overload
    def classify(self, texts: str, **options: int) -> Sequence[Label]: ...

    @overload
    def classify(self, texts: Texts, **options: int) -> list[Sequence[Label]]: ...

    def classify(self, texts: str | Texts, **options: int) -> Sequence[Label] | list[Sequence[Label]]:
        """The most probable labels of a text, or of each of several (`ClassifyOptions`: `top`)."""
        several, alone = as_list(texts)
        found = [result.labels for result in self.run(several, ClassifyOptions.of(**options))]
        return found[0] if alone else found

    def run(self, inputs: Sequence[str], options: Options | None = None) -> list[Classification]:
        top = min(options_of(ClassifyOptions, options).top, len(self.labels))
        found = [Classification(text, []) for text in inputs]
        for i, logits in self.outputs(self.encode(inputs)):
            best = logits.softmax(-1).topk(top)
            labels = [Label(self.labels[k], p) for p, k in zip(best.values.tolist(), best.indices.tolist(), strict=True)]
            found[i] = Classification(inputs[i], labels)
        return found

    def read_examples(self, path: Path, drops: Drops) -> list[tuple[str, str]]:
        return list(read_labelled(path, drops))

    def predict(self, examples: Sequence[tuple[str, str]]) -> list[Prediction]:
        """The prediction for each (text, label); a label that the model does not know has probability 0."""
        known = {label: index for index, label in enumerate(self.labels)}
        found: list[Prediction] = [("", None)] * len(examples)
        for i, logits in self.outputs(self.encode([text for text, _ in examples])):
            right = known.get(examples[i][1])
            nll = None if right is None else -float(logits.log_softmax(-1)[right])
            found[i] = (self.labels[int(logits.argmax())], nll)
        return found

    def unknown_labels(self, example: tuple[str, str]) -> list[str]:
        return [] if example[1] in self.labels else [example[1]]

    def row_of(self, example: tuple[str, str]) -> tuple[list[int], int | None]:
        return self.encode([example[0]])[0], None

    def scores(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Prediction]) -> dict[str, float]:
        losses = [nll for _, nll in outputs if nll is not None]
        own = classification_scores([label for label, _ in outputs], [label for _, label in examples])
        return {**own, "loss": sum(losses) / max(1, len(losses))}

    def samples(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Prediction]) -> list[Sample]:
        return [
            {"input": text, "output": found, "reference": label}
            for (text, label), (found, _) in zip(examples, outputs, strict=True)
        ]


def check_labels(labels: Sequence[str], classes: int) -> None:
    """Raise an error unless every class has its own name."""
    if len(labels) != classes or len(set(labels)) != classes:
        raise UsageError(f"the model has {classes:,} classes, but {len(set(labels)):,} names for them")
