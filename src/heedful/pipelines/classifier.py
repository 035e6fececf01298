"""Which class a text belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from heedful.data.drops import Drops
from heedful.data.labelled import read_labelled
from heedful.evaluation import classification_scores
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.text import Tokenizer


class Classifier(EncoderPipeline):
    """Sorts texts into `labels`."""

    task: ClassVar[str] = "classification"

    def __init__(self, model: Bert, tokenizer: Tokenizer, labels: Sequence[str], max_length: int = 128) -> None:
        super().__init__(model, tokenizer, max_length)
        self.labels = list(labels)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "labels": self.labels}

    def classify(self, texts: Sequence[str], top: int = 1) -> list[list[tuple[str, float]]]:
        """The `top` likeliest labels of each text with their probabilities, best first."""
        found: list[list[tuple[str, float]]] = [[] for _ in texts]
        for i, _, logits in self.read(self.encode(texts)):
            best = logits.softmax(-1).topk(min(top, len(self.labels)))
            found[i] = [(self.labels[k], p) for p, k in zip(best.values.tolist(), best.indices.tolist(), strict=True)]
        return found

    def read_examples(self, path: Path, drops: Drops) -> list[tuple[str, str]]:
        return list(read_labelled(path, drops))

    def predict(self, examples: Sequence[tuple[str, str]]) -> list[Any]:
        """Of each (text, label): the likeliest label, and −log p of the right one (None when the model does not know it)."""
        known = {label: index for index, label in enumerate(self.labels)}
        found: list[Any] = [None] * len(examples)
        for i, _, logits in self.read(self.encode([text for text, _ in examples])):
            right = known.get(examples[i][1])
            nll = None if right is None else -float(logits.log_softmax(-1)[right])
            found[i] = [self.labels[int(logits.argmax())], nll]
        return found

    def row_of(self, example: tuple[str, str]) -> tuple[list[int], int | None]:
        return self.encode([example[0]])[0], None

    def scores(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Any]) -> dict[str, Any]:
        losses = [nll for _, nll in outputs if nll is not None]
        own = classification_scores([label for label, _ in outputs], [label for _, label in examples])
        return {**own, "loss": sum(losses) / max(1, len(losses))}

    def samples(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Any]) -> list[dict[str, str]]:
        return [
            {"input": text, "output": found, "reference": label}
            for (text, label), (found, _) in zip(examples, outputs, strict=True)
        ]
