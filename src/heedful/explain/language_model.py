"""The explanation of a language model that continues a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.decoding.search import next_log_probabilities
from heedful.errors import UsageError
from heedful.explain.encoder_decoder import search
from heedful.explain.explanation import Beam, Candidate, Explanation, Prediction, Token, TokenSequence
from heedful.explain.from_trace import attention_map, candidates_of, check_size, norms_of
from heedful.explain.logit_lens import lens_of
from heedful.explain.tokens import END, encoded_tokens, names_of, written_tokens
from heedful.jobs.options import ExplainOptions, GenerateOptions
from heedful.jobs.registry import JOBS
from heedful.models import kind_of
from heedful.pipelines.writer import Writer

LOOKS_BACK = "Rows and columns are the tokens of the text; none attends to a later one."


def explain_continuation(writer: Writer, prompt: str, options: ExplainOptions, model: str = "") -> Explanation:
    """How a prompt was continued (greedily, or by a beam search), or how a given continuation would be written."""
    tokenizer, context = writer.tokenizer, writer.model.config.context
    read = [Token(tokenizer.eos, END, True), *encoded_tokens(tokenizer, prompt)]
    if len(read) > context:
        raise UsageError(f"a prompt of {len(read) - 1:,} tokens does not fit into the model's context of {context - 1:,}")
    beam = None
    length = min(options.length, context - len(read))
    if options.target is not None:
        output, written = options.target, encoded_tokens(tokenizer, options.target)
        if len(read) + len(written) > context:
            raise UsageError(
                f"prompt and target have {len(read) + len(written) - 1:,} tokens, but the model's context is {context - 1:,}"
            )
    elif length:
        ids, beam = search(writer, prompt, GenerateOptions(length=length, beam=options.beam or 1))
        output, written = tokenizer.decode(ids), written_tokens(tokenizer, ids)
    else:
        output, written = "", []
    # The words of the output are counted on from those of the prompt; the two may share one.
    words = 1 + max((token.word for token in read if token.word is not None), default=-1)
    shared = bool(prompt and output) and not prompt[-1].isspace() and prompt[-1].isalnum() and output[0].isalnum()
    moved = [token if token.word is None else token._replace(word=token.word + words - shared) for token in written]
    return explain_text(writer, [*read, *moved], options.top, model, prompt, output, beam)


def explain_text(
    writer: Writer,
    tokens: Sequence[Token],
    top: int = 5,
    model: str = "",
    prompt: str = "",
    output: str = "",
    beam: Beam | None = None,
) -> Explanation:
    """What a language model computes over the tokens of a text."""
    config, names = writer.model.config, names_of(writer.tokenizer)
    check_size(config.layers * config.heads * len(tokens) ** 2, len(tokens))
    ids = [token.id for token in tokens]
    sequences = {"input": TokenSequence(list(tokens))}
    following = [*ids[1:], None]

    def candidates_at(states: Tensor) -> list[list[Candidate]]:
        logits = writer.model.project(states)[0]
        return candidates_of(next_log_probabilities(logits, writer.limits).exp(), top, names)

    with writer.working():
        trace = writer.model.trace(torch.tensor([ids], device=writer.device))
        found = candidates_at(trace.states)
        lens = lens_of(trace, "decoder", "input", lambda states: candidates_at(writer.model.encoder.norm(states)))
    return Explanation(
        job=writer.task,
        verb=JOBS[writer.task].verbs[0],
        kind=kind_of(config),
        model=model,
        input=prompt,
        output=output,
        sequences=sequences,
        attention=attention_map(trace, "decoder", LOOKS_BACK, "input", "input", sequences),
        norms=[norms_of(trace, "decoder", "input")],
        lens=[lens],
        candidates=[Prediction(i, following[i], one) for i, one in enumerate(found)],
        beam=beam,
    )
