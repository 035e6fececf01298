"""Text that continues a prompt, and the perplexity of a text, by a language model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, overload

import torch

from heedful.data.drops import Drops
from heedful.data.text import blocks_of
from heedful.data.text_windows import TextWindow, text_windows
from heedful.decoding.search import Hypothesis, Limits, beam_search, greedy_search, sample
from heedful.jobs.options import GenerateOptions
from heedful.jobs.results import Continuation
from heedful.models.gpt import GPT
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.memory import check_beam
from heedful.pipelines.pipeline import Pipeline, as_list, options_of
from heedful.text import Tokenizer

BATCH = 32  # prompts, or windows of a text, at one time


class Writer(Pipeline[TextWindow]):
    """Writes with a GPT. A document begins after the end token of the one before it."""

    task: ClassVar[str] = "language-model"

    def __init__(self, model: GPT, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    @classmethod
    def assemble(cls, model: Any, tokenizers: dict[str, Tokenizer], settings: dict[str, Any]) -> Self:
        return cls(model, tokenizers["tokenizer"], **settings)

    @overload
    def generate(self, prompts: str, **options: Any) -> str: ...

    @overload
    def generate(self, prompts: Sequence[str], **options: Any) -> list[str]: ...

    def generate(self, prompts: str | Sequence[str], **options: Any) -> str | list[str]:
        """What follows a prompt (which may be empty), or each of several; keywords are those of `GenerateOptions`.

        At most `length` tokens, up to the end of the document: sampled, or with `beam` (1 is greedy) searched for.
        """
        several, alone = as_list(prompts)
        found = [result.text for result in self.run(several, GenerateOptions.of(**options))]
        return found[0] if alone and len(found) == 1 else found

    def run(self, inputs: Sequence[str], options: GenerateOptions | None = None) -> list[Continuation]:
        """`options.count` continuations of each prompt, one after the other."""
        o = options_of(GenerateOptions, options)
        prompts = [prompt for prompt in inputs for _ in range(o.count)]
        generator = torch.Generator(self.device).manual_seed(o.seed)
        sampling = {"temperature": o.temperature, "top_k": o.top_k, "top_p": o.top_p, "generator": generator}
        found = self.search(prompts, o.length, o.beam, None if o.beam else sampling)
        return [Continuation(prompt, self.tokenizer.decode(best.tokens)) for prompt, best in zip(prompts, found, strict=True)]

    def search(
        self, prompts: Sequence[str], length: int, beam: int = 1, sampling: dict[str, Any] | None = None
    ) -> list[Hypothesis]:
        """The best continuation of each prompt; `sampling` (keywords of `sample`) samples instead of searching."""
        tokenizer = self.tokenizer
        limits = Limits(tokenizer.bos, tokenizer.eos, tokenizer.pad, length, beyond_source=False)
        encoded = [[tokenizer.eos, *ids] for ids in tokenizer.encode_batch(prompts)]
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, ids in enumerate(encoded):
            by_length[len(ids)].append(index)
        found: list[Hypothesis] = [Hypothesis([], 0.0, 0.0)] * len(prompts)
        check_beam(self.model.config, beam, self.model.config.context)
        for same in by_length.values():  # a GPT reads no padding
            for start in range(0, len(same), BATCH):
                rows = same[start : start + BATCH]
                read = torch.tensor([encoded[i] for i in rows], device=self.device)
                source, first = read[:, :-1], read[:, -1]
                mask = torch.ones_like(source, dtype=torch.bool)
                with self.working():
                    if sampling is not None:
                        results = sample(self.model, source, mask, limits, **sampling, first=first)
                    elif beam == 1:
                        results = greedy_search(self.model, source, mask, limits, first)
                    else:
                        results = [best[0] for best in beam_search(self.model, source, mask, limits, beam, 0.0, first=first)]
                for i, result in zip(rows, results, strict=True):
                    found[i] = result
        return found

    def read_examples(self, path: Path, drops: Drops) -> list[TextWindow]:
        return text_windows("".join(blocks_of(path)), self.tokenizer, self.model.config.context)

    def predict(self, examples: Sequence[TextWindow]) -> list[Any]:
        """Of each window: Σ −log p of its tokens after the first, how many, and the bytes they stand for."""
        found = []
        with self.working():
            for start in range(0, len(examples), BATCH):
                group = examples[start : start + BATCH]
                widest = max(len(ids) for ids, _ in group)
                padded = torch.tensor([ids + [self.tokenizer.pad] * (widest - len(ids)) for ids, _ in group], device=self.device)
                states = self.model.states(padded[:, :-1])
                for row, (ids, size) in enumerate(group):
                    real = states[row, : len(ids) - 1], self.model.output_weight, None, padded[row, 1 : len(ids)]
                    found.append([float(label_smoothed_loss(*real)[1]), len(ids) - 1, size])
        return found

    def scores(self, examples: Sequence[TextWindow], outputs: Sequence[Any]) -> dict[str, Any]:
        nll, tokens, size = (sum(row[column] for row in outputs) for column in range(3))
        loss = nll / max(1, tokens)
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_byte": nll / math.log(2) / max(1.0, size),
        }

    def samples(self, examples: Sequence[TextWindow], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """The beginning of two windows, continued by the model and by the text itself."""
        beginnings = [ids[: len(ids) // 4 + 1] for ids, _ in examples[:2]]
        prompts = [self.tokenizer.decode(ids) for ids in beginnings]
        written = self.generate(prompts, length=min(60, max(1, self.model.config.context // 2)), temperature=0.8)
        rest = [self.tokenizer.decode(ids[len(ids) // 4 + 1 :][:60]) for ids, _ in examples[:2]]
        return [
            {"input": prompt, "output": text, "reference": right}
            for prompt, text, right in zip(prompts, written, rest, strict=True)
        ]
