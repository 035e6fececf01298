"""Verifies an export: compares a model's outputs with those of other software that loaded the exported files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.decoding.search import greedy_search
from heedful.decoding.sentence import Hypothesis, Sentence
from heedful.errors import HeedfulError
from heedful.jobs.options import TranslateOptions
from heedful.pipelines.encoder import AnyEncoder, EncoderPipeline
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer

LINES = 50  # held-out examples that an export is checked with
MADE_UP = 20  # made-up ones if none are held out
WRITTEN = 30  # tokens of a language model's continuation
CLOSE = 0.01  # largest difference between scores of the same model
TIED = 1e-3  # an output whose score is this close to ours counts as a tie
NEAR = 0.2  # the same for a model of lower precision
MOST = 0.5  # share of (nearly) equal outputs required of a model of lower precision


class Answer(NamedTuple):
    """The output of a model for an input."""

    output: Any  # tokens or classes; None where the numbers are the output
    scores: NDArray[np.float32]  # a log-probability, logits, or a vector


@dataclass(frozen=True)
class Comparison:
    """The outputs of other software compared with ours."""

    software: str  # its name and version
    what: str  # the inputs
    compared: int
    identical: int
    tied: int  # different outputs with nearly the same score
    difference: float  # the largest difference between scores
    exact: bool  # whether the same outputs are expected; not when a lower precision was asked for

    def passed(self) -> bool:
        """Whether it is the same model."""
        alike = self.identical + self.tied
        return alike == self.compared and self.difference <= CLOSE if self.exact else alike >= MOST * self.compared

    def sentence(self) -> str:
        """The result, for a person."""
        tied = f" ({self.tied} more score the same)" if self.tied and self.exact else ""
        return (
            f"{self.software} on {self.what}: {self.identical:,} of {self.compared:,} outputs identical{tied}; "
            f"scores differ by at most {self.difference:.1e}"
        )

    def check(self) -> None:
        """Raise an error if it is not the same model."""
        if not self.passed():
            raise HeedfulError(f"the exported model is not the same as the original, so it was not kept: {self.sentence()}")


def compare(ours: Sequence[Answer], theirs: Sequence[Answer], software: str, what: str, exact: bool) -> Comparison:
    """Compare outputs one by one. If two outputs are equally probable, rounding decides which one is chosen."""
    identical = tied = 0
    difference = 0.0
    for our, their in zip(ours, theirs, strict=True):
        same_shape = our.scores.shape == their.scores.shape
        apart = float(np.abs(our.scores - their.scores).max(initial=0.0)) if same_shape else float("inf")
        if our.output == their.output:
            difference = max(difference, apart)
            identical += our.output is not None or apart <= CLOSE
        else:
            tied += apart <= (TIED if exact else NEAR)
    return Comparison(software, what, len(ours), identical, tied, difference, exact)


def sample_texts(pipeline: AnyPipeline, folder: Path) -> tuple[list[str], str]:
    """Texts to check a model with, and a description: held out in its run, or made up from its vocabulary."""
    if not pipeline.tokenizers:
        return [], "made-up images"
    found: list[str] = []
    for path in (folder.parent / "data" / "valid.json", folder.parent / "results.json"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        rows = [row.get("input") for row in content.get("samples", [])] if isinstance(content, dict) else content
        found += [text for text in map(first_text, rows if isinstance(rows, list) else []) if text.strip()]
        if found:
            break
    if len(found) >= 5:
        return found[:LINES], "held-out lines"
    rng = random.Random(1)
    tokenizer = next(iter(pipeline.tokenizers.values()))
    special = {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos, tokenizer.mask}
    ids = [number for number in range(tokenizer.size) if number not in special and tokenizer.backend.id_to_token(number)]
    texts = [tokenizer.decode(rng.choices(ids, k=rng.randint(1, 24))) for _ in range(4 * MADE_UP)]
    return [text for text in texts if text.strip()][:MADE_UP], "made-up lines"


def first_text(row: object) -> str:
    """The text of an example as a run keeps it: its first string, or its words."""
    if isinstance(row, str):
        return row
    if isinstance(row, dict):
        row = list(row.values())
    if isinstance(row, list) and row:
        words = row[0]
        return " ".join(words) if isinstance(words, list) and all(isinstance(w, str) for w in words) else first_text(words)
    return ""


def token_rows(pipeline: AnyPipeline, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text, as many as the model reads."""
    if isinstance(pipeline, Translator):
        rows = pipeline.encode_sources(texts)
    elif isinstance(pipeline, EncoderPipeline):
        rows = pipeline.encode(texts)
    else:
        assert isinstance(pipeline, Writer)
        half = max(1, pipeline.model.config.context // 2)
        rows = [ids[:half] for ids in pipeline.tokenizer.encode_batch(texts)]
    return [row for row in rows if row]


def text_answer(found: Hypothesis) -> Answer:
    """A generated text, with its log-probability per token, including the end token."""
    return Answer(found.tokens, np.array([found.log_probability / (len(found.tokens) + 1)], dtype=np.float32))


def native_texts(pipeline: Translator | Writer, texts: Sequence[str]) -> list[Answer]:
    """The outputs of our model: greedy translations or summaries, or continuations of prompts."""
    if isinstance(pipeline, Translator):
        sentences = sentences_of(pipeline, texts)
        pipeline.decode(sentences)
        return [text_answer(sentence.hypotheses[0]) for sentence in sentences]
    longest = min(WRITTEN, max(1, pipeline.model.config.context // 2))
    limits = replace(pipeline.limits, max_extra=longest)
    found = []
    with pipeline.working():
        for row in token_rows(pipeline, texts):
            *read, last = pipeline.tokenizer.eos, *row
            source = torch.tensor([read], dtype=torch.long)
            real = torch.ones_like(source, dtype=torch.bool)
            found += greedy_search(pipeline.model, source, real, limits, torch.tensor([last]))
    return [text_answer(one) for one in found]


def sentences_of(pipeline: Translator, texts: Sequence[str]) -> list[Sentence]:
    """The sentences to decode greedily for these texts; also for a summarizer."""
    found = Translator.sentences(pipeline, texts, TranslateOptions(beam=1))
    return [sentence for sentences in found for sentence in sentences]


def native_rows(pipeline: AnyEncoder, rows: Sequence[Sequence[int]]) -> list[Answer]:
    """The outputs of our BERT for each row of ids, one by one: classes with their logits, or states."""
    tokenizer, found = pipeline.tokenizer, []
    with pipeline.working():
        for row in rows:
            output = pipeline.model(torch.tensor([[tokenizer.bos, *row, tokenizer.eos]]))
            scores = (output[0] if isinstance(output, tuple) else output)[0].float().numpy()
            found.append(Answer(None if pipeline.model.config.head == "none" else scores.argmax(-1).tolist(), scores))
    return found


def sample_images(pipeline: AnyPipeline) -> NDArray[np.float32]:
    """Random images (N, C, H, W), as model input."""
    config = pipeline.model.config
    shape = (MADE_UP, config.channels, config.image_size, config.image_size)
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


def image_answers(pipeline: AnyPipeline, images: NDArray[np.float32]) -> list[Answer]:
    """The class of each image with the logits of all."""
    with pipeline.working():
        logits = pipeline.model(torch.from_numpy(images)).float().numpy()
    return [Answer(int(row.argmax()), row) for row in logits]
