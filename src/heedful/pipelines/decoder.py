"""What every pipeline that writes text shares: its inputs as sentences, decoded in one continuous batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from heedful.decoding.batching import ContinuousBatch, Encoded
from heedful.decoding.sentence import Limits, Sentence
from heedful.jobs.options import Options
from heedful.jobs.results import Result
from heedful.pipelines.pipeline import Example, ModelOutput, Pipeline

BATCH_TOKENS = 4096  # source tokens, beams included, decoded together
REFILL = 0.5  # the share of it that is free before more of many inputs join


class Engine(Protocol):
    """Another program that decodes with the same model."""

    def can_decode(self, sentence: Sentence) -> bool:
        """Whether this sentence can be decoded there as asked for."""

    def decode(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """Decode sentences from beginning to end; returns those that it cannot decode."""


class DecoderPipeline(Pipeline[Example, ModelOutput]):
    """A model that writes, and its tokenizers."""

    engine: Engine | None = None  # decodes instead of the model what it can

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """The special ids, and how long an output may be."""

    @abstractmethod
    def sentences(self, inputs: Sequence[str], options: Options | None = None) -> list[list[Sentence]]:
        """What is to be decoded for each input: nothing, one sentence, or several drawn ones."""

    @abstractmethod
    def results(self, given: str, sentences: Sequence[Sentence]) -> list[Result]:
        """The answers to one input, once its sentences are finished."""

    @abstractmethod
    def encode_batches(self, sentences: Sequence[Sentence]) -> Iterable[Encoded]:
        """Sources as tensors, in batches that can be encoded at once."""

    def batch(self, refill: float = 0.0, fair: bool = False) -> ContinuousBatch[Any]:
        """An empty batch, which sentences of this pipeline can join; `fair` for several owners."""
        return ContinuousBatch(self.model, self.limits, self.encode_batches, BATCH_TOKENS, refill, fair)

    def decode(self, sentences: Iterable[Sentence]) -> None:
        """Decode sentences from beginning to end."""
        if self.engine is not None:
            sentences = self.engine.decode(sentences)
        batch = self.batch(REFILL)
        batch.add(sorted(sentences, key=lambda sentence: len(sentence.source)))  # neighbours need little padding
        with self.working():
            while batch:
                batch.step()

    def run(self, inputs: Sequence[str], options: Options | None = None) -> Sequence[Result]:
        each = self.sentences(inputs, options)
        self.decode(sentence for sentences in each for sentence in sentences)
        return [result for given, sentences in zip(inputs, each, strict=True) for result in self.results(given, sentences)]
