"""The explanation of a BERT that fills, classifies, tags, answers or embeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from heedful.data.collation import segments_of
from heedful.data.question_windows import question_windows, word_edges
from heedful.explain.encoder_rows import AnyEncoder, Row, named, window_row
from heedful.explain.explanation import Candidate, Explanation, Lens, Prediction, Token, TokenSequence
from heedful.explain.from_trace import attention_map, candidates_of, check_size, norms_of
from heedful.explain.logit_lens import lens_of
from heedful.jobs.registry import JOBS
from heedful.jobs.results import Filling, Guess
from heedful.models import kind_of
from heedful.nn.pooling import class_scores
from heedful.nn.trace import Trace
from heedful.pipelines.answerer import Answerer, span_text
from heedful.pipelines.classifier import Classifier
from heedful.pipelines.masked import MaskedModel
from heedful.pipelines.tagger import Tagger

ABOUT = "Rows and columns are the tokens of the text."
POOLING = "Rows are the learned queries, columns the tokens of the text."
SUMMARIES = {"cls": "[CLS]", "mean": "mean", "attention": "queries"}  # what the one answer for a sequence is read from
FOLLOWS = ["the second text follows", "the second text does not follow"]

Say = Callable[[Tensor], list[list[Candidate]]]


class Said(NamedTuple):
    """The output of a BERT for a row, and what each layer would already predict."""

    output: str = ""
    candidates: Sequence[Prediction] = ()
    lens: Sequence[Lens] = ()


def explain_row(pipeline: AnyEncoder, row: Row, top: int = 5, model: str = "") -> Explanation:
    """What a BERT does with a row of tokens."""
    config, tokenizer = pipeline.model.config, pipeline.tokenizer
    begin, end = named(tokenizer, [Token(tokenizer.bos, ""), Token(tokenizer.eos, "")])
    tokens = [begin, *row.tokens, end]
    check_size(config.layers * config.heads * len(tokens) ** 2, len(tokens))
    ids = torch.tensor([[token.id for token in tokens]], device=pipeline.device)
    segments = None if row.first is None else segments_of(len(tokens), [row.first]).to(pipeline.device)
    sequences = {"input": TokenSequence(tokens, None if segments is None else segments[0].tolist())}
    if config.pooling == "attention":
        labels = pipeline.labels if config.head == "sequence" else ["query"]
        sequences["queries"] = TokenSequence([Token(number, label) for number, label in enumerate(labels)])
    with pipeline.working():
        trace = pipeline.model.trace(ids, segments)
        said = _said(pipeline, row, trace, ids, top)
    return Explanation(
        job=pipeline.task,
        verb=JOBS[pipeline.task].verbs[0],
        kind=kind_of(config),
        model=model,
        input=row.given,
        output=said.output,
        sequences=sequences,
        attention=[
            *attention_map(trace, "encoder", ABOUT, "input", "input", sequences),
            *attention_map(trace, "pooling", POOLING, "queries", "input", sequences),
        ],
        norms=[norms_of(trace, "encoder", "input")],
        lens=said.lens,
        candidates=said.candidates,
    )


def _said(pipeline: AnyEncoder, row: Row, trace: Trace, ids: Tensor, top: int) -> Said:
    if isinstance(pipeline, MaskedModel):
        return _filled(pipeline, row, trace, ids, top)
    if isinstance(pipeline, Classifier):
        return _classified(pipeline, trace, top)
    if isinstance(pipeline, Tagger):
        return _tagged(pipeline, row, trace, top)
    if isinstance(pipeline, Answerer):
        return _answered(pipeline, row, trace, top)
    return Said()


def _filled(pipeline: MaskedModel, row: Row, trace: Trace, ids: Tensor, top: int) -> Said:
    """The guesses for every [MASK]; of two texts also whether the second follows."""
    head, matrix = pipeline.model.masked_language, pipeline.model.embedding.weight

    def say(states: Tensor) -> list[list[Candidate]]:
        probabilities = torch.nn.functional.linear(head(states[0]), matrix, head.bias).softmax(-1)
        return candidates_of(probabilities, top, pipeline.tokenizer.tokens)

    found = say(trace.states)
    places = (ids[0] == pipeline.mask).nonzero().flatten().tolist()
    candidates = [Prediction(place, found[place][0].id, found[place]) for place in places]
    output = Filling(row.given, [[Guess(c.text, c.probability) for c in found[place]] for place in places]).as_text()
    if row.first is not None:
        (follows,) = candidates_of(pipeline.model.next_sentence_logits(trace.states).softmax(-1), 2, FOLLOWS)
        candidates.append(Prediction(None, follows[0].id, follows))
        output = "\n".join(filter(None, [output, f"{follows[0].text} {follows[0].probability:.1%}"]))
    return Said(output, candidates, [lens_of(trace, "encoder", "input", say)])


def _classified(pipeline: Classifier, trace: Trace, top: int) -> Said:
    net = pipeline.model

    def say(states: Tensor) -> list[list[Candidate]]:
        return candidates_of(class_scores(net.pooled(states), net.classifier).softmax(-1), top, pipeline.labels)

    (best,) = say(trace.states)
    output = f"{best[0].text} {best[0].probability:.1%}"
    lens = lens_of(trace, "encoder", "input", say, [SUMMARIES[net.config.pooling]])
    return Said(output, [Prediction(None, best[0].id, best)], [lens])


def _tagged(pipeline: Tagger, row: Row, trace: Trace, top: int) -> Said:
    """The tags of every word, read off its first token."""

    def say(states: Tensor) -> list[list[Candidate]]:
        return candidates_of(pipeline.model.classifier(states)[0].softmax(-1), top, pipeline.labels)

    found = say(trace.states)
    best = [None if start is None else found[start + 1] for start in row.starts]  # [CLS] is before the words
    places = [start for start in row.starts if start is not None]
    candidates = [Prediction(start + 1, found[start + 1][0].id, found[start + 1]) for start in places]
    tags = [pipeline.labels[0] if one is None else one[0].text for one in best]
    output = "".join(f"{word}\t{tag}\n" for word, tag in zip(row.words, tags, strict=True))
    return Said(output, candidates, [lens_of(trace, "encoder", "input", say)])


def _answered(pipeline: Answerer, row: Row, trace: Trace, top: int) -> Said:
    """The best spans of one window of the passage."""
    window = row.window
    if window is None:
        return Said()
    edges = word_edges(row.passage)

    def say(states: Tensor) -> list[list[Candidate]]:
        spans = pipeline.spans(window, pipeline.model.classifier(states)[0], edges)
        if spans is None:
            return [[]]
        best = spans.flatten().softmax(0).topk(min(top, int(spans.isfinite().sum())))
        texts = [span_text(window, at, row.passage) for at in best.indices.tolist()]
        return [[Candidate(None, text, p) for text, p in zip(texts, best.values.tolist(), strict=True)]]

    (best,) = say(trace.states)
    return Said(
        best[0].text if best else "", [Prediction(None, None, best)], [lens_of(trace, "encoder", "input", say, ["answer"])]
    )


def explain_answer(pipeline: Answerer, question: str, passage: str, top: int = 5, model: str = "") -> Explanation:
    """How a question was answered. In a long passage, the window with the best answer is explained; the candidates are those
    of all windows."""
    found: list[tuple[float, str]] = []
    best, total = None, torch.tensor(-torch.inf)
    for window, spans in pipeline.scored_spans([(question, passage)]):
        values, places = spans.flatten().topk(min(top, int(spans.isfinite().sum())))
        if not found or float(values[0]) > found[0][0]:
            best = window
        found += [(v, span_text(window, at, passage)) for v, at in zip(values.tolist(), places.tolist(), strict=True)]
        found = sorted(found, key=lambda one: -one[0])[:top]
        total = torch.logaddexp(total, spans.flatten().logsumexp(0).cpu())
    if best is None:  # no part of it can be an answer
        best = next(question_windows([(question, passage)], pipeline.tokenizer, pipeline.max_length, pipeline.stride))
    explanation = explain_row(pipeline, window_row(pipeline, best, question, passage), top, model)
    spans_found = [Candidate(None, text, float((value - total).exp())) for value, text in found]
    return dataclasses.replace(
        explanation,
        output=found[0][1] if found else "",
        candidates=[Prediction(None, None, spans_found)] if found else [],
    )
