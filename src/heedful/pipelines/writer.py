"""Text that goes on from a prompt, and how well a text was foreseen, by a language model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from heedful.data.corpus import Drops
from heedful.data.text import blocks_of
from heedful.decoding.search import Hypothesis, Limits, beam_search, greedy_search, sample
from heedful.errors import UsageError
from heedful.models.gpt import GPT
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.directory import Pipeline
from heedful.text import Tokenizer

BATCH = 32  # prompts, or windows of a text, at one time

Window = tuple[list[int], float]  # n + 1 tokens, each predicted from those before it, and the bytes of text they stand for


class Writer(Pipeline):
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

    def generate(
        self,
        prompts: Sequence[str],
        length: int = 200,
        beam: int = 0,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
    ) -> list[str]:
        """What follows each prompt (which may be empty): at most `length` tokens, up to the end of the document.

        Tokens are drawn, or with `beam` (1 is greedy) searched for.
        """
        if isinstance(prompts, str):
            raise UsageError("generate takes a list of prompts; put the one you have in brackets")
        generator = torch.Generator(self.device).manual_seed(seed)
        drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
        found = self.search(prompts, length, beam, None if beam else drawing)
        return [self.tokenizer.decode(hypothesis.tokens) for hypothesis in found]

    def search(
        self, prompts: Sequence[str], length: int, beam: int = 1, drawing: dict[str, Any] | None = None
    ) -> list[Hypothesis]:
        """The best continuation of each prompt; `drawing` (keywords of `sample`) draws instead of searching."""
        tokenizer = self.tokenizer
        limits = Limits(tokenizer.bos, tokenizer.eos, tokenizer.pad, length, beyond_source=False)
        encoded = [[tokenizer.eos, *ids] for ids in tokenizer.encode_batch(prompts)]
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, ids in enumerate(encoded):
            by_length[len(ids)].append(index)
        found: list[Hypothesis] = [Hypothesis([], 0.0, 0.0)] * len(prompts)
        self.model.eval()
        for same in by_length.values():  # a GPT reads no padding
            for start in range(0, len(same), BATCH):
                rows = same[start : start + BATCH]
                read = torch.tensor([encoded[i] for i in rows], device=self.device)
                source, first = read[:, :-1], read[:, -1]
                mask = torch.ones_like(source, dtype=torch.bool)
                if drawing is not None:
                    results = sample(self.model, source, mask, limits, **drawing, first=first)
                elif beam == 1:
                    results = greedy_search(self.model, source, mask, limits, first)
                else:
                    results = [best[0] for best in beam_search(self.model, source, mask, limits, beam, 0.0, first=first)]
                for i, result in zip(rows, results, strict=True):
                    found[i] = result
        return found

    def read_examples(self, path: Path, drops: Drops) -> list[Window]:
        return windows_of("".join(blocks_of(path)), self.tokenizer, self.model.config.context)

    @torch.no_grad()
    def predict(self, examples: Sequence[Window]) -> list[Any]:
        """Of each window: Σ −log p of its tokens after the first, how many, and the bytes they stand for."""
        was_training = self.model.training
        self.model.eval()
        found = []
        for start in range(0, len(examples), BATCH):
            group = examples[start : start + BATCH]
            widest = max(len(ids) for ids, _ in group)
            padded = torch.tensor([ids + [self.tokenizer.pad] * (widest - len(ids)) for ids, _ in group], device=self.device)
            states = self.model.states(padded[:, :-1])
            for row, (ids, size) in enumerate(group):
                real = states[row, : len(ids) - 1], self.model.output_weight, None, padded[row, 1 : len(ids)]
                found.append([float(label_smoothed_loss(*real)[1]), len(ids) - 1, size])
        self.model.train(was_training)
        return found

    def scores(self, examples: Sequence[Window], outputs: Sequence[Any]) -> dict[str, Any]:
        nll, tokens, size = (sum(row[column] for row in outputs) for column in range(3))
        loss = nll / max(1, tokens)
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_byte": nll / math.log(2) / max(1.0, size),
        }

    def samples(self, examples: Sequence[Window], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """The beginning of two windows, as the model goes on from there and as the text does."""
        beginnings = [ids[: len(ids) // 4 + 1] for ids, _ in examples[:2]]
        prompts = [self.tokenizer.decode(ids) for ids in beginnings]
        written = self.generate(prompts, min(60, self.model.config.context // 2), temperature=0.8)
        rest = [self.tokenizer.decode(ids[len(ids) // 4 + 1 :][:60]) for ids, _ in examples[:2]]
        return [
            {"input": prompt, "output": text, "reference": right}
            for prompt, text, right in zip(prompts, written, rest, strict=True)
        ]


def windows_of(text: str, tokenizer: Tokenizer, context: int) -> list[Window]:
    """A text cut into windows of a model's context; every token, the end included, is predicted exactly once."""
    ids = [tokenizer.eos, *tokenizer.encode(text), tokenizer.eos]
    starts = range(0, len(ids) - 1, context)
    size = len(text.encode("utf-8")) / len(starts)
    return [(ids[start : start + context + 1], size) for start in starts]
