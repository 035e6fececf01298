"""Text that continues a prompt, and the perplexity of a text, by a language model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, overload

import torch

from heedful.data.drops import Drops
from heedful.data.plain_text import blocks_of
from heedful.data.text_windows import TextWindow, text_windows
from heedful.decoding.batching import Encoded
from heedful.decoding.sentence import Hypothesis, Limits, Sampling, Sentence
from heedful.evaluation.perplexity import perplexity
from heedful.evaluation.score_names import Sample, Scores
from heedful.jobs.options import GenerateOptions, Options, OptionValue
from heedful.jobs.results import Continuation, Result
from heedful.models.gpt import GPT
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.decoder import DecoderPipeline
from heedful.pipelines.memory_check import check_beam
from heedful.pipelines.pipeline import Texts, as_list, options_of
from heedful.settings import Values
from heedful.text import Tokenizer

BATCH = 32  # prompts or windows of text per batch


class WindowLoss(NamedTuple):
    """The loss of a window: of all its tokens after the first."""

    nll: float  # the sum of −log p
    tokens: int
    size: float  # bytes that they stand for


class Writer(DecoderPipeline[TextWindow, WindowLoss]):
    """Writes text with a GPT. A document begins after the end token of the one before it."""

    task: ClassVar[str] = "language-model"

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    @classmethod
    def assemble(cls, model: GPT, tokenizers: dict[str, Tokenizer], settings: Values) -> Self:
        return cls(model, tokenizers["tokenizer"], **settings)

    @overload
    def generate(self, prompts: str, **options: OptionValue) -> str: ...

    @overload
    def generate(self, prompts: Texts, **options: OptionValue) -> list[str]: ...

    def generate(self, prompts: str | Texts, **options: OptionValue) -> str | list[str]:
        """What follows a prompt (which may be empty), or each of several; keywords are those of `GenerateOptions`.

        Writes at most `length` tokens, up to the end of the document, by sampling or with `beam` by beam search (1 is greedy).
        """
        several, alone = as_list(prompts)
        found = [self.tokenizer.continuation(best.tokens) for best in self.search(several, **options)]
        return found[0] if alone and len(found) == 1 else found

    @property
    def limits(self) -> Limits:
        return Limits(self.tokenizer.bos, self.tokenizer.eos, self.tokenizer.pad, beyond_source=False)

    def sentences(self, inputs: Sequence[str], options: Options | None = None) -> list[list[Sentence]]:
        """`options.count` sentences for each prompt. A document begins after the end token of the one before it."""
        o = options_of(GenerateOptions, options)
        check_beam(self.model.config, max(1, o.beam), self.model.config.context)
        beam = o.beam if o.beam > 1 else 0
        draws = [None if o.beam else Sampling(o.temperature, o.top_k, o.top_p, f"{o.seed}/{draw}") for draw in range(o.count)]
        less_repetition = o.no_repeat_ngram, o.repetition_penalty
        found = []
        for ids in self.tokenizer.encode_batch(inputs):
            *source, first = self.tokenizer.eos, *ids
            found.append([Sentence(source, first, o.length, beam, 0.0, 1, draw, *less_repetition) for draw in draws])
        return found

    def encode_batches(self, sentences: Sequence[Sentence]) -> Iterable[Encoded]:
        """Prompts of one length: a GPT reads no padding."""
        by_length: dict[int, list[Sentence]] = defaultdict(list)
        for sentence in sentences:
            by_length[len(sentence.source)].append(sentence)
        for length, same in by_length.items():
            for start in range(0, len(same), BATCH):
                together = same[start : start + BATCH]
                source = torch.tensor([sentence.source for sentence in together], dtype=torch.long, device=self.device)
                source = source.view(len(together), length)
                yield source, torch.ones_like(source, dtype=torch.bool), together

    def results(self, given: str, sentences: Sequence[Sentence]) -> list[Result]:
        return [Continuation(given, self.tokenizer.continuation(sentence.hypotheses[0].tokens)) for sentence in sentences]

    def search(self, prompts: Sequence[str], **options: OptionValue) -> list[Hypothesis]:
        """The continuations of each prompt. Keywords are those of `GenerateOptions`."""
        each = self.sentences(prompts, GenerateOptions.of(**options))
        self.decode(sentence for sentences in each for sentence in sentences)
        return [sentence.hypotheses[0] for sentences in each for sentence in sentences]

    def read_examples(self, path: Path, drops: Drops) -> list[TextWindow]:
        return text_windows("".join(blocks_of(path)), self.tokenizer, self.model.config.context)

    def predict(self, examples: Sequence[TextWindow]) -> list[WindowLoss]:
        found = []
        with self.working():
            for start in range(0, len(examples), BATCH):
                group = examples[start : start + BATCH]
                widest = max(len(ids) for ids, _ in group)
                padded = torch.tensor([ids + [self.tokenizer.pad] * (widest - len(ids)) for ids, _ in group], device=self.device)
                states = self.model.states(padded[:, :-1])
                for row, (ids, size) in enumerate(group):
                    real = states[row, : len(ids) - 1], self.model.output_weight, None, padded[row, 1 : len(ids)]
                    found.append(WindowLoss(float(label_smoothed_loss(*real)[1]), len(ids) - 1, size))
        return found

    def scores(self, examples: Sequence[TextWindow], outputs: Sequence[WindowLoss]) -> Scores:
        nll, size = sum(one.nll for one in outputs), sum(one.size for one in outputs)
        loss = nll / max(1, sum(one.tokens for one in outputs))
        return {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bits_per_byte": nll / math.log(2) / max(1.0, size),
        }

    def samples(self, examples: Sequence[TextWindow], outputs: Sequence[WindowLoss]) -> list[Sample]:
        """The beginning of two windows, continued by the model and by the text itself."""
        beginnings = [ids[: len(ids) // 4 + 1] for ids, _ in examples[:2]]
        prompts = [self.tokenizer.decode(ids) for ids in beginnings]
        written = self.generate(prompts, length=min(60, max(1, self.model.config.context // 2)), temperature=0.8)
        rest = [self.tokenizer.continuation(ids[len(ids) // 4 + 1 :][:60]) for ids, _ in examples[:2]]
        return [
            {"input": prompt, "output": text, "reference": right}
            for prompt, text, right in zip(prompts, written, rest, strict=True)
        ]
