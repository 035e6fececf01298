"""Explains many inputs one after the other; their outputs are decoded together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from heedful.errors import HeedfulError, InputError
from heedful.explain.any_model import explain
from heedful.explain.encoder_decoder import explain_translation
from heedful.explain.explanation import Explanation
from heedful.jobs.options import ExplainOptions
from heedful.pipelines.answerer import Answerer
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer


def explain_lines(pipeline: AnyPipeline, lines: Sequence[str]) -> Iterator[Explanation | InputError | None]:
    """The explanation of each line, None for an empty one, or why it cannot be used.

    Outputs are greedy, and those of encoder–decoders have no candidates. A language model reads the lines as they are and writes
    nothing. For questions, lines are JSON with `question` and `passage`.
    """
    given = [line if line.strip() else None for line in lines]
    written = iter(_written(pipeline, [line for line in given if line is not None]))
    for line in given:
        try:
            if line is None:
                yield None
            elif isinstance(pipeline, Translator):
                ids = next(written)
                if isinstance(ids, InputError):
                    yield ids
                else:
                    yield explain_translation(pipeline, line, ExplainOptions(), ids=ids, only_attention=True)
            elif isinstance(pipeline, Writer):
                yield explain(pipeline, line, length=0, top=1)
            elif isinstance(pipeline, Answerer):
                yield explain(pipeline, *_question(line), top=1)
            else:
                yield explain(pipeline, line, top=1)
        except InputError as error:
            yield error
        except HeedfulError as error:
            yield InputError(str(error), 0)


def _written(pipeline: AnyPipeline, lines: Sequence[str]) -> list[list[int] | InputError]:
    """The greedy outputs of an encoder–decoder; other models have none."""
    if not isinstance(pipeline, Translator):
        return []
    try:
        return [found[0].tokens if found else [] for found in pipeline.search(lines, beam=1)]
    except InputError as error:
        return [error] if len(lines) == 1 else [found for line in lines for found in _written(pipeline, [line])]


def _question(line: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
        question, passage = row["question"], row["passage"] if "passage" in row else row["context"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f'this line is not a JSON object with "question" and "passage": {line[:80]}', 0) from error
    if not isinstance(question, str) or not isinstance(passage, str):
        raise InputError(f'"question" and "passage" must be text in {line[:80]}', 0)
    return question, passage
