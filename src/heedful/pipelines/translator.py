"""Text in, text out with an encoder–decoder: translation. Summarization is the same with other text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, overload

import numpy as np
import torch

from heedful.data.drops import Drops
from heedful.data.framing import SpecialIds, collate, frame, special_ids
from heedful.data.parallel import ParallelFiles
from heedful.decoding.search import Hypothesis, Limits, beam_search, greedy_search, sample
from heedful.errors import InputError
from heedful.evaluation.bleu import translation_scores
from heedful.jobs.options import Alpha, Beam, TranslateOptions
from heedful.jobs.results import Result, ScoredText, Translation
from heedful.models.seq2seq import Seq2Seq
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.memory import check_beam
from heedful.pipelines.pipeline import Pipeline, as_list, by_budget, options_of
from heedful.settings import CountOrNone
from heedful.text import Tokenizer

BATCH_TOKENS = 4096  # source tokens, beams included, decoded together
LONGEST_SOURCE = 4096  # tokens of one text; a longer one would be written for minutes, and no model learned from such


class Translator(Pipeline[tuple[str, str]]):
    """Translates text with an encoder–decoder and its tokenizers."""

    task: ClassVar[str] = "translation"

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        beam: Beam = 4,
        length_penalty: Alpha = 0.6,
        max_extra: CountOrNone = 50,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.beam, self.length_penalty, self.max_extra = beam, length_penalty, max_extra
        self.bleu: dict[str, Any] = {}  # how sacreBLEU is to score, where not as usual: tokenize, lowercase

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        both = {"tokenizer": self.source_tokenizer, "target_tokenizer": self.target_tokenizer}
        return both if self.target_tokenizer is not self.source_tokenizer else {"tokenizer": self.source_tokenizer}

    @property
    def settings(self) -> dict[str, Any]:
        return {"beam": self.beam, "length_penalty": self.length_penalty, "max_extra": self.max_extra}

    @classmethod
    def assemble(cls, model: Any, tokenizers: dict[str, Tokenizer], settings: dict[str, Any]) -> Self:
        source = tokenizers["tokenizer"]
        return cls(model, source, tokenizers.get("target_tokenizer", source), **settings)

    @property
    def special(self) -> SpecialIds:
        """The ids that frame sources and targets."""
        return special_ids(self.source_tokenizer, self.target_tokenizer)

    @property
    def longest_source(self) -> int:
        """Tokens that one text may have."""
        return LONGEST_SOURCE

    @overload
    def translate(self, texts: str, **options: Any) -> str: ...

    @overload
    def translate(self, texts: Sequence[str], **options: Any) -> list[str]: ...

    def translate(self, texts: str | Sequence[str], **options: Any) -> str | list[str]:
        """A text translated, or each of several; keywords are those of `TranslateOptions`. An empty text stays empty."""
        several, alone = as_list(texts)
        found = [result.translations[0].text if result.translations else "" for result in self.translations(several, options)]
        return found[0] if alone else found

    def translations(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        """The translations of each text with their scores."""
        o = TranslateOptions.of(**options)
        sampling: dict[str, Any] | None = None
        if o.sample:
            generator = torch.Generator(self.device).manual_seed(o.seed)
            sampling = {"temperature": o.temperature, "top_k": o.top_k, "top_p": o.top_p, "generator": generator}
        found = self.search(texts, o.beam, o.n_best, o.length_penalty, sampling)
        decode = self.target_tokenizer.decode
        return [
            Translation(text, [ScoredText(decode(best.tokens), best.score, best.log_probability) for best in hypotheses])
            for text, hypotheses in zip(texts, found, strict=True)
        ]

    def run(self, inputs: Sequence[str], options: Any = None) -> Sequence[Result]:
        return self.translations(inputs, vars(options_of(TranslateOptions, options)))

    def search(
        self,
        texts: Sequence[str],
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        sampling: dict[str, Any] | None = None,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each text, best first; none for an empty text.

        `sampling` (keys temperature, top_k, top_p, generator) samples instead of searching.
        """
        beam = max(self.beam if beam is None else beam, n_best)
        alpha = self.length_penalty if length_penalty is None else length_penalty
        found: list[list[Hypothesis]] = [[] for _ in texts]
        encoded = self.encode_sources(texts)
        for index, ids in enumerate(encoded):
            if len(ids) > self.longest_source:
                limit = f"at most {self.longest_source:,} at a time"
                raise InputError(f"a text of {len(ids):,} tokens is too long: {limit}; split it into sentences", index)
        check_beam(self.model.config, beam, 2 * max(map(len, encoded), default=0) + self.max_extra)
        order = sorted((i for i, text in enumerate(texts) if text.strip()), key=lambda i: len(encoded[i]))
        limits = Limits(self.target_tokenizer.bos, self.target_tokenizer.eos, self.target_tokenizer.pad, self.max_extra)
        with self.working():
            for batch in by_budget(order, [len(ids) + 1 for ids in encoded], BATCH_TOKENS // beam):
                rows = [np.array(encoded[i], dtype=np.uint32) for i in batch]
                source, mask = frame(rows, self.special.source_pad, None, self.special.source_eos)
                source, mask = source.to(self.device), mask.to(self.device)
                if sampling is not None:
                    draws = [sample(self.model, source, mask, limits, **sampling) for _ in range(n_best)]
                    results = [sorted(drawn, key=lambda h: -h.score) for drawn in zip(*draws, strict=True)]
                elif beam == 1:
                    results = [[hypothesis] for hypothesis in greedy_search(self.model, source, mask, limits)]
                else:
                    results = beam_search(self.model, source, mask, limits, beam, alpha, n_best)
                for i, result in zip(batch, results, strict=True):
                    found[i] = result
        return found

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text to be read."""
        return self.source_tokenizer.encode_batch(texts)

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        """log p(target | source) of each pair, and its number of target tokens, the end included."""
        sources = self.encode_sources([source for source, _ in pairs])
        targets = self.target_tokenizer.encode_batch([target for _, target in pairs])
        order = sorted(range(len(pairs)), key=lambda i: (len(targets[i]), len(sources[i])))
        widths = [max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)]
        found = [(0.0, 0)] * len(pairs)
        with self.working():
            for rows in by_budget(order, widths, BATCH_TOKENS):
                left = [np.array(sources[i], dtype=np.uint32) for i in rows]
                right = [np.array(targets[i], dtype=np.uint32) for i in rows]
                batch = collate(left, right, self.special).to(self.device)
                states, weight, bias, answers = self.model.training_states(batch)
                at = 0
                for i, tokens in zip(rows, batch.target_mask.sum(1).tolist(), strict=True):
                    nll = label_smoothed_loss(states[at : at + tokens], weight, bias, answers[at : at + tokens])[1]
                    found[i] = (-float(nll), tokens)
                    at += tokens
        return found

    def perplexity(self, pairs: Sequence[tuple[str, str]]) -> float:
        """exp of the mean negative log-likelihood of a target token."""
        found = self.log_likelihoods(pairs)
        loss = -sum(total for total, _ in found) / max(1, sum(tokens for _, tokens in found))
        return math.exp(min(loss, 700.0))

    def read_examples(self, path: Path, drops: Drops) -> list[tuple[str, str]]:
        return list(ParallelFiles(path).read(drops))

    def predict(self, examples: Sequence[tuple[str, str]]) -> list[Any]:
        """Of each pair: what is written for its source, and how likely its target was: log p and tokens."""
        if not examples:
            return []
        written = self.translate([source for source, _ in examples])
        likelihoods = self.log_likelihoods(examples)
        return [[text, *likelihood] for text, likelihood in zip(written, likelihoods, strict=True)]

    def scores(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Any]) -> dict[str, Any]:
        loss = -sum(row[1] for row in outputs) / max(1, sum(row[2] for row in outputs))
        own = self.text_scores([row[0] for row in outputs], [target for _, target in examples])
        return {**own, "loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def text_scores(self, written: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
        """The metrics of this job."""
        return translation_scores(written, right, **self.bleu)

    def samples(self, examples: Sequence[tuple[str, str]], outputs: Sequence[Any]) -> list[dict[str, str]]:
        return [
            {"input": source, "output": row[0], "reference": target}
            for (source, target), row in zip(examples, outputs, strict=True)
        ]
