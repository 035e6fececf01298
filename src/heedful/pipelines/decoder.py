"""What every pipeline that writes text shares: its inputs as sentences, decoded in one continuous batch."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch

from heedful.decoding.batching import ContinuousBatch, Encoded
from heedful.decoding.sentence import Limits, Sentence
from heedful.jobs.options import Options
from heedful.jobs.results import Result
from heedful.pipelines.pipeline import Example, ModelOutput, Pipeline
from heedful.runtime.device import keep_freed_memory

BATCH_TOKENS = 4096  # source tokens, beams included, decoded together
BATCH_NUMBERS = 2**20  # narrow models decode more of many inputs together: these / d_model tokens
REFILL = 1.0  # the share of a batch that is free before more of many inputs join: nobody waits for the first answers
WIDE = 512  # d_model from which a few sentences are worth several threads: smaller products are faster in one
SHARE = 16  # sentences that are worth a thread of their own


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

    def batch(self, fair: bool = False) -> ContinuousBatch[Any]:
        """An empty batch, which sentences of this pipeline can join; `fair` for several owners."""
        return ContinuousBatch(self.model, self.limits, self.encode_batches, BATCH_TOKENS, fair=fair)

    def decode(self, sentences: Iterable[Sentence]) -> None:
        """Decode sentences from beginning to end: many of them in one thread per core, each with a batch of its own."""
        if self.engine is not None:
            sentences = self.engine.decode(sentences)
        if self.device.type == "cpu":
            keep_freed_memory()  # every step frees and allocates megabytes
        ordered = sorted(sentences, key=lambda sentence: len(sentence.source))  # neighbours need little padding
        threads = min(torch.get_num_threads(), len(ordered) // SHARE) if self.device.type == "cpu" else 1
        stop = threading.Event()
        with self.working():
            if threads < 2:
                with one_thread_each() if self.model.config.d_model < WIDE else nullcontext():
                    self._decode_part(ordered, stop)
                return
            with one_thread_each(), ThreadPoolExecutor(threads) as pool:
                try:
                    for part in [pool.submit(self._decode_part, ordered[i::threads], stop) for i in range(threads)]:
                        part.result()
                finally:
                    stop.set()

    def _decode_part(self, sentences: Sequence[Sentence], stop: threading.Event) -> None:
        """Decode sentences until they are finished or another part has failed."""
        budget = max(BATCH_TOKENS, BATCH_NUMBERS // self.model.config.d_model)
        batch: ContinuousBatch[Any] = ContinuousBatch(self.model, self.limits, self.encode_batches, budget, REFILL)
        batch.add(sentences)
        while batch and not stop.is_set():
            batch.step()

    def run(self, inputs: Sequence[str], options: Options | None = None) -> Sequence[Result]:
        each = self.sentences(inputs, options)
        self.decode(sentence for sentences in each for sentence in sentences)
        return [result for given, sentences in zip(inputs, each, strict=True) for result in self.results(given, sentences)]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Inside, an operation runs in one thread, for several of them side by side."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
