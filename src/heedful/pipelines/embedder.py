"""Sentences as vectors: texts of similar meaning lie near each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, NoReturn, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.data.drops import Drops
from heedful.errors import UsageError
from heedful.evaluation.score_names import Sample
from heedful.jobs.options import Options
from heedful.jobs.results import Embedding
from heedful.models.bert import Bert
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.pipeline import ModelOutput, as_list
from heedful.settings import Json, Positions, from_json
from heedful.text import Tokenizer

Example = TypeVar("Example")
SentencePooling = Literal["mean", "cls"]
NO_SCORE = "a sentence encoder has no score of its own; train a classifier on it with model.pretrained=DIR"


class Embedder(EncoderPipeline[str, NoReturn]):
    """Turns each text into one vector: the mean of its tokens' states (or the first), of length one if `normalize`."""

    task: ClassVar[str] = "embedding"

    def __init__(
        self,
        model: Bert,
        tokenizer: Tokenizer,
        max_length: Positions = 128,
        pooling: SentencePooling = "mean",
        normalize: bool = True,
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.pooling: SentencePooling = from_json("pooling", SentencePooling, pooling)
        self.normalize = normalize

    @classmethod
    def of(cls, pipeline: EncoderPipeline[Example, ModelOutput]) -> Self:
        """An embedder from the encoder of a model trained for another job."""
        return cls(pipeline.model, pipeline.tokenizer, pipeline.max_length)

    @property
    def settings(self) -> dict[str, Json]:
        return {**super().settings, "pooling": self.pooling, "normalize": self.normalize}

    def embed(self, texts: str | Sequence[str]) -> NDArray[np.float32]:
        """One vector per text, (N, D); of a single text (D,)."""
        several, alone = as_list(texts)
        vectors = self.vectors(several)
        return vectors[0] if alone else vectors

    def run(self, inputs: Sequence[str], options: Options | None = None) -> list[Embedding]:
        # Eight digits are all that a float32 has.
        rows = ([float(f"{value:.8g}") for value in row] for row in self.vectors(inputs))
        return [Embedding(text, row) for text, row in zip(inputs, rows, strict=True)]

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D)"""
        found = np.zeros((len(texts), self.model.config.d_model), dtype=np.float32)
        for i, states in self.outputs(self.encode(texts)):
            vector = states.mean(0) if self.pooling == "mean" else states[0]
            if self.normalize:
                vector = torch.nn.functional.normalize(vector, dim=0)
            found[i] = vector.float().cpu().numpy()
        return found

    def output(self, tokens: Tensor, segments: Tensor | None, mask: Tensor) -> Tensor:
        return self.model.states(tokens, segments, mask)

    def read_examples(self, path: Path, drops: Drops) -> NoReturn:
        raise UsageError(NO_SCORE)

    def predict(self, examples: Sequence[str]) -> NoReturn:
        raise UsageError(NO_SCORE)

    def row_of(self, example: str) -> tuple[list[int], int | None]:
        return self.encode([example])[0], None

    def scores(self, examples: Sequence[str], outputs: Sequence[object]) -> dict[str, float]:
        return {}

    def samples(self, examples: Sequence[str], outputs: Sequence[object]) -> list[Sample]:
        return []
