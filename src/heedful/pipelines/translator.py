"""Text in, text out with an encoder–decoder: translation. Summarization is the same with other text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self, overload

import numpy as np

from heedful.data.collation import SpecialIds, collate, frame, special_ids
from heedful.data.drops import Drops
from heedful.data.parallel import Pair, ParallelFiles
from heedful.decoding.batching import Encoded
from heedful.decoding.sentence import Hypothesis, Limits, Sampling, Sentence
from heedful.errors import InputError
from heedful.evaluation.bleu import BleuOptions, translation_scores
from heedful.evaluation.perplexity import perplexity
from heedful.evaluation.score_names import Sample, Scores
from heedful.jobs.options import Alpha, Beam, NoRepeat, Options, OptionValue, Repetition, TranslateOptions
from heedful.jobs.results import Result, ScoredText, Translation
from heedful.models.seq2seq import Seq2Seq
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.decoder import BATCH_TOKENS, DecoderPipeline
from heedful.pipelines.memory_check import check_beam
from heedful.pipelines.pipeline import Texts, as_list, by_budget, options_of
from heedful.settings import CountOrNone, Json, Values
from heedful.text import Tokenizer

LONGEST_SOURCE = 4096  # tokens of one text; a longer one would be written for minutes, and no model learned from such


class TranslatedPair(NamedTuple):
    """What is written for the source of a pair, and how likely its target was."""

    text: str
    log_likelihood: float
    tokens: int  # of the target, the end included


class Translator(DecoderPipeline[Pair, TranslatedPair]):
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
        source_language: str = "",
        target_language: str = "",
        max_tokens: CountOrNone = 0,
        no_repeat_ngram: NoRepeat = 0,
        repetition_penalty: Repetition = 1.0,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.beam, self.length_penalty, self.max_extra = beam, length_penalty, max_extra
        self.max_tokens = max_tokens
        self.no_repeat_ngram, self.repetition_penalty = no_repeat_ngram, repetition_penalty
        self.source_language, self.target_language = source_language, target_language  # codes such as "en", or unknown
        self.bleu: BleuOptions = {}  # how sacreBLEU is to score, where not as usual: tokenize, lowercase

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        both = {"tokenizer": self.source_tokenizer, "target_tokenizer": self.target_tokenizer}
        return both if self.target_tokenizer is not self.source_tokenizer else {"tokenizer": self.source_tokenizer}

    @property
    def settings(self) -> dict[str, Json]:
        return {
            "beam": self.beam,
            "length_penalty": self.length_penalty,
            "max_extra": self.max_extra,
            "max_tokens": self.max_tokens,
            "no_repeat_ngram": self.no_repeat_ngram,
            "repetition_penalty": self.repetition_penalty,
            "source_language": self.source_language,
            "target_language": self.target_language,
        }

    @classmethod
    def assemble(cls, model: Seq2Seq, tokenizers: dict[str, Tokenizer], settings: Values) -> Self:
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
    def translate(self, texts: str, **options: OptionValue) -> str: ...

    @overload
    def translate(self, texts: Texts, **options: OptionValue) -> list[str]: ...

    def translate(self, texts: str | Texts, **options: OptionValue) -> str | list[str]:
        """A text translated, or each of several; keywords are those of `TranslateOptions`. An empty text stays empty."""
        several, alone = as_list(texts)
        each = self.sentences(several, TranslateOptions.of(**options))
        for sentences in each:
            for sentence in sentences:
                sentence.scored = False
        self.decode(sentence for sentences in each for sentence in sentences)
        found = [[h for sentence in sentences for h in sentence.hypotheses] for sentences in each]
        written = [self.target_tokenizer.decode(hypotheses[0].tokens if hypotheses else []) for hypotheses in found]
        return written[0] if alone else written

    def translations(self, texts: Sequence[str], **options: OptionValue) -> list[Translation]:
        """The translations of each text with their scores; keywords are those of `TranslateOptions`."""
        found = self.run(texts, TranslateOptions.of(**options))
        return [result for result in found if isinstance(result, Translation)]

    @property
    def limits(self) -> Limits:
        target = self.target_tokenizer
        return Limits(target.bos, target.eos, target.pad, self.max_extra, max_tokens=self.max_tokens)

    def sentences(self, inputs: Sequence[str], options: Options | None = None) -> list[list[Sentence]]:
        """One sentence for each text, or with sampling `n_best` of them; none for an empty text."""
        o = options_of(TranslateOptions, options)
        n_best = 1 if o.sample else o.n_best
        beam = max(self.beam if o.beam is None else o.beam, n_best)
        alpha = self.length_penalty if o.length_penalty is None else o.length_penalty
        encoded = self.encode_sources(inputs)
        for index, ids in enumerate(encoded):
            if len(ids) > self.longest_source:
                limit = f"at most {self.longest_source:,} at a time"
                raise InputError(f"a text of {len(ids):,} tokens is too long: {limit}; split it into sentences", index)
        longest = max(map(len, encoded), default=0)
        check_beam(self.model.config, beam, longest + self.limits.longest(longest))
        draws = (
            [Sampling(o.temperature, o.top_k, o.top_p, f"{o.seed}/{draw}") for draw in range(o.n_best)] if o.sample else [None]
        )
        width = 0 if o.sample or beam == 1 else beam
        first, limits = self.target_tokenizer.bos, self.limits
        ngram = self.no_repeat_ngram if o.no_repeat_ngram is None else o.no_repeat_ngram
        penalty = self.repetition_penalty if o.repetition_penalty is None else o.repetition_penalty

        def sentence(ids: list[int], draw: Sampling | None) -> Sentence:
            return Sentence(ids, first, limits.longest(len(ids) + 1), width, alpha, n_best, draw, ngram, penalty)

        return [[sentence(ids, draw) for draw in draws if text.strip()] for text, ids in zip(inputs, encoded, strict=True)]

    def encode_batches(self, sentences: Sequence[Sentence]) -> Iterable[Encoded]:
        """Sources of similar length, each with its end."""
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].source))
        for batch in by_budget(order, [len(sentence.source) + 1 for sentence in sentences], BATCH_TOKENS):
            rows = [np.array(sentences[i].source, dtype=np.uint32) for i in batch]
            source, mask = frame(rows, self.special.source_pad, None, self.special.source_eos)
            yield source.to(self.device), mask.to(self.device), [sentences[i] for i in batch]

    def results(self, given: str, sentences: Sequence[Sentence]) -> list[Result]:
        found = sorted((h for sentence in sentences for h in sentence.hypotheses), key=lambda h: -h.score)
        decode = self.target_tokenizer.decode
        return [Translation(given, [ScoredText(decode(best.tokens), best.score, best.log_probability) for best in found])]

    def search(self, texts: Sequence[str], **options: OptionValue) -> list[list[Hypothesis]]:
        """The hypotheses of each text, best first; none for an empty text. Keywords are those of `TranslateOptions`."""
        each = self.sentences(texts, TranslateOptions.of(**options))
        self.decode(sentence for sentences in each for sentence in sentences)
        return [[h for sentence in sentences for h in sentence.hypotheses] for sentences in each]

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text to be read."""
        return self.source_tokenizer.encode_batch(texts)

    def log_likelihoods(self, pairs: Sequence[Pair]) -> list[tuple[float, int]]:
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

    def perplexity(self, pairs: Sequence[Pair]) -> float:
        """exp of the mean negative log-likelihood of a target token."""
        found = self.log_likelihoods(pairs)
        loss = -sum(total for total, _ in found) / max(1, sum(tokens for _, tokens in found))
        return perplexity(loss)

    def read_examples(self, path: Path, drops: Drops) -> list[Pair]:
        return list(ParallelFiles(path).read(drops))

    def predict(self, examples: Sequence[Pair]) -> list[TranslatedPair]:
        if not examples:
            return []
        written = self.translate([source for source, _ in examples])
        likelihoods = self.log_likelihoods(examples)
        return [TranslatedPair(text, *likelihood) for text, likelihood in zip(written, likelihoods, strict=True)]

    def scores(self, examples: Sequence[Pair], outputs: Sequence[TranslatedPair]) -> Scores:
        loss = -sum(one.log_likelihood for one in outputs) / max(1, sum(one.tokens for one in outputs))
        own = self.text_scores([one.text for one in outputs], [target for _, target in examples])
        return {**own, "loss": loss, "perplexity": perplexity(loss)}

    def text_scores(self, written: Sequence[str], right: Sequence[str]) -> Scores:
        """The metrics of this job."""
        return translation_scores(written, right, **self.bleu)

    def samples(self, examples: Sequence[Pair], outputs: Sequence[TranslatedPair]) -> list[Sample]:
        return [
            {"input": source, "output": one.text, "reference": target}
            for (source, target), one in zip(examples, outputs, strict=True)
        ]
