"""The explanation of an encoder–decoder that translates or summarizes, Transformer or recurrent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from heedful.data.collation import collate
from heedful.decoding.beam_tree import BeamTree
from heedful.decoding.search import next_log_probabilities
from heedful.decoding.sentence import Limits, Sentence
from heedful.explain.explanation import Beam, Branch, Candidate, Explanation, Lens, Prediction, Token, TokenSequence
from heedful.explain.from_trace import attention_map, candidates_of, check_size, norms_of, row_labels
from heedful.explain.logit_lens import lens_of
from heedful.explain.tokens import BEGIN, END, encoded_tokens, names_of, written_tokens
from heedful.jobs.options import ExplainOptions, Options, TranslateOptions
from heedful.jobs.registry import JOBS
from heedful.models import kind_of
from heedful.nn.trace import Stack, Trace
from heedful.pipelines.decoder import DecoderPipeline
from heedful.pipelines.pipeline import Example, ModelOutput
from heedful.pipelines.translator import Translator
from heedful.text import Tokenizer

READS_SOURCE = "Rows and columns are the tokens of the source."
READS_BOTH = "Rows are the tokens the decoder reads, columns those of the source."
LOOKS_BACK = "Rows and columns are the tokens the decoder reads; none attends to a later one."
RECURRENT_LABELS = ("embeddings", "cells", "cells and attention")


def explain_translation(
    translator: Translator,
    text: str,
    options: ExplainOptions,
    model: str = "",
    *,
    ids: Sequence[int] | None = None,
    only_attention: bool = False,
) -> Explanation:
    """How a text was translated, or how a given target would be written.

    Without the `ids` of the output, it is decoded first. `only_attention` leaves out the candidates and the logit lens.
    """
    tokenizer, reader = translator.target_tokenizer, translator.source_tokenizer
    source_ids = translator.encode_sources([text])[0]
    beam = None
    if options.target is not None:
        output, target = options.target, encoded_tokens(tokenizer, options.target)
    else:
        if ids is None:
            ids, beam = search(translator, text, TranslateOptions(options.beam, options.length_penalty))
        output, target = tokenizer.decode(ids), written_tokens(tokenizer, ids)
    target_ids = [token.id for token in target if token.id is not None]
    _check(translator, len(source_ids) + 1, len(target_ids) + 1)
    sequences = {
        "source": TokenSequence([*encoded_tokens(reader, text, len(source_ids)), Token(reader.eos, END, True)]),
        "target": TokenSequence([Token(tokenizer.bos, BEGIN, True), *target]),
    }
    cut_off = options.target is None and len(target_ids) >= translator.limits.longest(len(source_ids) + 1)
    chosen = [*target_ids, None if cut_off else tokenizer.eos]
    with translator.working():
        trace = _trace(translator, source_ids, target_ids)
        candidates, lens = ([], []) if only_attention else _said(translator, trace, chosen, options.top)
    return Explanation(
        job=translator.task,
        verb=JOBS[translator.task].verbs[0],
        kind=kind_of(translator.model.config),
        model=model,
        input=text,
        output=output,
        sequences=sequences,
        attention=[
            *attention_map(trace, "encoder", READS_SOURCE, "source", "source", sequences),
            *attention_map(trace, "decoder", LOOKS_BACK, "target", "target", sequences),
            *attention_map(trace, "cross", READS_BOTH, "target", "source", sequences),
        ],
        norms=[
            norms_of(trace, "encoder", "source", _labels(translator, trace, "encoder")),
            norms_of(trace, "decoder", "target", _labels(translator, trace, "decoder")),
        ],
        lens=lens,
        candidates=candidates,
        beam=beam,
    )


def _said(translator: Translator, trace: Trace, chosen: Sequence[int | None], top: int) -> tuple[list[Prediction], list[Lens]]:
    """The candidates at each position, and what each layer of the decoder would already predict."""
    # The states of a recurrent decoder are read as they are.
    final_norm = getattr(translator.model.decoder, "norm", torch.nn.Identity())
    names = names_of(translator.target_tokenizer)

    def candidates_at(states: Tensor) -> list[list[Candidate]]:
        logits = translator.model.project(states)[0]
        return candidates_of(next_log_probabilities(logits, translator.limits).exp(), top, names)

    found = [Prediction(i, chosen[i], one) for i, one in enumerate(candidates_at(trace.states))]
    labels = _labels(translator, trace, "decoder")
    return found, [lens_of(trace, "decoder", "target", lambda states: candidates_at(final_norm(states)), labels=labels)]


def _labels(translator: Translator, trace: Trace, stack: Stack) -> Sequence[str]:
    """Names of the hidden states of a stack."""
    count = len(trace.hidden[stack])
    recurrent = kind_of(translator.model.config) == "recurrent" and stack == "decoder"
    return RECURRENT_LABELS[:count] if recurrent else row_labels(trace.hidden[stack])


def _trace(translator: Translator, source_ids: Sequence[int], target_ids: Sequence[int]) -> Trace:
    rows = [np.array(source_ids, dtype=np.uint32)], [np.array(target_ids, dtype=np.uint32)]
    batch = collate(*rows, translator.special).to(translator.device)
    trace: Trace = translator.model.trace(batch.source, batch.target_in, batch.source_mask)
    return trace


def _check(translator: Translator, source: int, target: int) -> None:
    config = translator.model.config
    if kind_of(config) == "recurrent":
        return
    weights = config.heads * (config.layers * source**2 + config.depth * (target**2 + source * target))
    check_size(weights, source + target)


def search(pipeline: DecoderPipeline[Example, ModelOutput], text: str, options: Options) -> tuple[list[int], Beam | None]:
    """The best output for a text, and the tree of the beam search that found it, if it was one."""
    sentences = pipeline.sentences([text], options)[0]
    if not sentences:  # an empty text
        return [], None
    sentence = sentences[0]
    if sentence.beam:
        sentence.tree = BeamTree()
    pipeline.decode([sentence])
    tokens = sentence.hypotheses[0].tokens
    tokenizer: Tokenizer = getattr(pipeline, "target_tokenizer", None) or pipeline.tokenizers["tokenizer"]
    return tokens, beam_of(sentence, tokenizer, pipeline.limits)


def beam_of(sentence: Sentence, tokenizer: Tokenizer, limits: Limits) -> Beam | None:
    """The tree of a finished beam search that recorded it."""
    if sentence.tree is None:
        return None
    sentence.tree.finish(sentence.hypotheses[0].tokens, limits.eos, len(sentence.tree.steps) >= sentence.longest)
    name = names_of(tokenizer)
    steps = [
        [Branch(n.node, n.parent, n.token, name([n.token])[0], n.log_probability, n.score, n.state) for n in step]
        for step in sentence.tree.steps
    ]
    return Beam(sentence.beam, sentence.alpha, steps)
