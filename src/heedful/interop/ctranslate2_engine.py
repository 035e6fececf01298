"""Decoding by CTranslate2: the same greedy and beam search as `decoding.search`, in another library."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from heedful.decoding.length_penalty import length_penalty
from heedful.decoding.sentence import Hypothesis, Sentence
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from heedful.pipelines.translator import Translator


class Ended(NamedTuple):
    """A hypothesis of CTranslate2's: its tokens with the end, if it was reached, and its log-probability."""

    tokens: list[int]
    total: float


BATCH_TOKENS = 2048  # source tokens decoded together by one worker
PATIENCE = (
    1.5,
    3.0,
)  # its search stops after this many times `beam` hypotheses have ended; the second value if that was too early


class CTranslate2Engine:
    """A converted encoder–decoder that decodes for a pipeline with the same model."""

    def __init__(self, folder: Path, pipeline: Translator, longest: int, greedy_only: bool = False) -> None:
        """`longest` is the number of positions that the converted model has; with `greedy_only`, beams are left to others."""
        import ctranslate2

        kind = pipeline.device.type
        self.translator = ctranslate2.Translator(
            str(folder),
            device=kind if kind in ("cpu", "cuda") else "cpu",
            inter_threads=torch.get_num_threads() if kind == "cpu" else 1,
            intra_threads=1 if kind == "cpu" else 0,
        )
        self.longest, self.greedy_only = longest, greedy_only
        self.limits = pipeline.limits
        source, target = vocabularies(pipeline)
        self.source_names = source
        self.target_names, self.target_ids = target, {name: number for number, name in enumerate(target)}

    def can_decode(self, sentence: Sentence) -> bool:
        """Whether the engine supports this sentence's options: not sampling, alternatives or penalties on repetition."""
        lengths = max(len(sentence.source) + 1, sentence.longest)
        plain = sentence.sampling is None and not sentence.alternatives and not sentence.discourages_repetition
        plain = plain and not (self.greedy_only and sentence.beam)
        return plain and lengths <= self.longest

    def decode(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """Decode sentences completely; returns those that it could not decode."""
        groups: dict[tuple[int, float], list[Sentence]] = defaultdict(list)
        left = []
        for sentence in sentences:
            if self.can_decode(sentence):
                groups[sentence.beam, sentence.alpha if sentence.beam else 0.0].append(sentence)
            else:
                left.append(sentence)
        for group in groups.values():
            self.decode_group(group)
        return left

    def decode_group(self, sentences: Sequence[Sentence], patience: float = PATIENCE[0]) -> None:
        """Decode sentences that have the same beam width (0 is greedy) and length penalty.

        CTranslate2 has one length limit for all. A sentence that ran past its own is decoded again with that limit, and one
        whose search stopped before ours would have, with more patience.
        """
        limit = max(sentence.longest for sentence in sentences)
        shorter: dict[int, list[Sentence]] = defaultdict(list)
        longer: list[Sentence] = []
        done = []
        for sentence, found in zip(sentences, self.search(sentences, limit, patience), strict=True):
            if limit > sentence.longest and any(len(tokens) > sentence.longest for tokens, _ in found):
                shorter[sentence.longest].append(sentence)
            else:
                done.append((sentence, found))
        for (sentence, found), stop in zip(done, self.stops(done), strict=True):
            if stop is None and patience < PATIENCE[-1] and len(found) >= round(patience * sentence.beam):
                longer.append(sentence)
            else:
                self.finish(sentence, found, sentence.longest if stop is None else stop)
        for same in shorter.values():
            self.decode_group(same, patience)
        if longer:
            self.decode_group(longer, PATIENCE[-1])

    def search(self, sentences: Sequence[Sentence], limit: int, patience: float) -> list[list[Ended]]:
        """The hypotheses of each sentence: tokens with the end, if it was reached, and log-probability."""
        beam = sentences[0].beam
        power = max(sentences[0].alpha, 0.001)  # exponent of the length; with 0 a beam search would stop too early
        results = self.translator.translate_batch(
            [self.named(sentence) for sentence in sentences],
            max_batch_size=max(1, BATCH_TOKENS // max(1, beam)),
            batch_type="tokens",
            beam_size=max(1, beam),
            patience=patience if beam else 1,
            num_hypotheses=round(patience * beam) if beam else 1,
            length_penalty=power,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,  # an output may be empty
        )
        return [
            [
                Ended([self.target_ids[name] for name in names], score * len(names) ** power)
                for names, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def named(self, sentence: Sentence) -> list[str]:
        """The source as CTranslate2 takes it."""
        return [self.source_names[token] for token in sentence.source]

    def stops(self, searched: Sequence[tuple[Sentence, list[Ended]]]) -> list[int | None]:
        """The step after which our search stops, for each sentence; None if theirs has stopped before.

        Ours stops when no open hypothesis has a better score than the worst of `beam` ended ones; theirs, when a number of
        them has ended. Hypotheses open at a step are those that ended later, so their log-probabilities up to it are
        requested.
        """
        late = [[one for one in found if len(one.tokens) > first_stop(sentence, found)] for sentence, found in searched]
        asked = [
            (self.named(sentence), [self.target_names[token] for token in one.tokens if token != self.limits.eos])
            for (sentence, _), ones in zip(searched, late, strict=True)
            for one in ones
        ]
        sources, targets = [source for source, _ in asked], [target for _, target in asked]
        sized: JsonObject = {"max_batch_size": BATCH_TOKENS, "batch_type": "tokens", "max_input_length": 0}
        scored = iter(self.translator.score_batch(sources, targets, **sized) if asked else [])
        found_stops = []
        for (sentence, found), ones in zip(searched, late, strict=True):
            totals = [list(accumulate(next(scored).log_probs))[: len(one.tokens)] for one in ones]
            found_stops.append(last_step(sentence, found, totals))
        return found_stops

    def finish(self, sentence: Sentence, found: Sequence[Ended], stop: int) -> None:
        """Store the hypotheses that ended up to a step in the sentence, ranked by our length penalty."""
        end = self.limits.eos
        if not sentence.beam:
            (one,) = found
            sentence.tokens, sentence.log_probabilities = [token for token in one.tokens if token != end], [one.total]
        else:
            ended = [
                Hypothesis([token for token in one.tokens if token != end], one.total, score_of(sentence, one))
                for one in found
                if len(one.tokens) <= stop
            ]
            sentence.ended = sorted(ended, key=lambda h: -h.score)[: sentence.beam]
        sentence.finished = True


def score_of(sentence: Sentence, one: Ended) -> float:
    """The score by which hypotheses of a sentence are ranked."""
    return one.total / length_penalty(len(one.tokens), sentence.alpha)


def first_stop(sentence: Sentence, found: Sequence[Ended]) -> int:
    """The first step at which as many hypotheses as the beam is wide had ended."""
    steps = sorted(len(one.tokens) for one in found)
    return steps[sentence.beam - 1] if 0 < sentence.beam <= len(steps) else sentence.longest


def last_step(sentence: Sentence, found: Sequence[Ended], late: Sequence[Sequence[float]]) -> int | None:
    """The step at which our search stops, or None if that is not among them; `late` has the log-probabilities after each
    token of hypotheses that ended later."""
    if not sentence.beam:
        return sentence.longest
    for step in range(first_stop(sentence, found), max(len(one.tokens) for one in found)):
        scores = sorted((score_of(sentence, one) for one in found if len(one.tokens) <= step), reverse=True)
        still_open = [totals[step - 1] for totals in late if len(totals) > step]
        if max(still_open, default=-math.inf) / length_penalty(step, sentence.alpha) <= scores[sentence.beam - 1]:
            return step
    return None


def vocabularies(pipeline: Translator) -> tuple[list[str], list[str]]:
    """The names of all source and of all target ids as CTranslate2 knows them.

    It has one name for the end and one for unknown tokens on both sides: those of the target.
    """
    from heedful.interop.ctranslate2_spec import vocabulary

    config = pipeline.model.config
    source, target = pipeline.source_tokenizer, pipeline.target_tokenizer
    named = [
        vocabulary([tokenizer.backend.id_to_token(number) for number in range(size)], size)
        for tokenizer, size in ((source, config.source_vocab), (target, config.target_vocab))
    ]
    for ours, theirs in ((source.eos, target.eos), (source.unk, target.unk)):
        name = named[1][theirs]
        if named[0][ours] != name:
            if name in named[0]:
                named[0][named[0].index(name)] = named[0][ours]
            named[0][ours] = name
    return named[0], named[1]
