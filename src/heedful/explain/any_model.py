"""`explain`: what a model of any job did with an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heedful.errors import UsageError
from heedful.explain.encoder import explain_answer, explain_row
from heedful.explain.encoder_decoder import explain_translation
from heedful.explain.encoder_rows import ids_row, text_row, two_texts_row, words_row
from heedful.explain.explanation import Explanation, Token
from heedful.explain.images import explain_image
from heedful.explain.language_model import explain_continuation, explain_text
from heedful.explain.tokens import END, written_tokens
from heedful.jobs.options import ExplainOptions, OptionValue
from heedful.jobs.registry import JOBS
from heedful.pipelines.answerer import Answerer
from heedful.pipelines.encoder import EncoderPipeline
from heedful.pipelines.image_classifier import ImageClassifier
from heedful.pipelines.masked import MaskedModel
from heedful.pipelines.pipeline import AnyPipeline
from heedful.pipelines.tagger import Tagger
from heedful.pipelines.translator import Translator
from heedful.pipelines.writer import Writer

PROMPT = 32  # tokens of a text that a report shows
LONGEST_EXAMPLE = 4000  # characters of a held-out text, of which the rest is not explained


def explain(
    pipeline: AnyPipeline, given: str | Path | bytes, second: str | None = None, *, model: str = "", **options: OptionValue
) -> Explanation:
    """What a model did with an input: a text, a prompt, or an image file or its contents.

    `second` is the passage of a question; for a masked language model it is a second text. `model` is the model's
    name. Other keywords are those of `ExplainOptions`.
    """
    chosen = ExplainOptions.of(**options)
    _check_options(pipeline, second, options)
    name = model or _name(pipeline)
    if isinstance(pipeline, ImageClassifier):
        shown = "image" if isinstance(given, bytes) else str(given)
        return explain_image(pipeline, pipeline.image(given, 0), chosen.top, name, shown)
    if not isinstance(given, str):
        raise UsageError(f"{JOBS[pipeline.task].what} takes a text, not {type(given).__name__}")
    if isinstance(pipeline, Writer):
        return explain_continuation(pipeline, given, chosen, name)
    if not given.strip():
        raise UsageError("there is nothing to explain: the text is empty")
    if isinstance(pipeline, Translator):
        return explain_translation(pipeline, given, chosen, name)
    if isinstance(pipeline, Answerer):
        return explain_answer(pipeline, given, second or "", chosen.top, name)
    assert isinstance(pipeline, EncoderPipeline)
    if isinstance(pipeline, Tagger):
        row = words_row(pipeline, pipeline.words(given), given)
    elif second is not None:
        row = two_texts_row(pipeline, given, second)
    else:
        row = text_row(pipeline, given)
    return explain_row(pipeline, row, chosen.top, name)


def explain_example(pipeline: AnyPipeline, example: Any) -> Explanation:
    """What a model did with a held-out example in the form that `predict` takes: its input, without its answer. Only the
    beginning of a long text is explained, because the attention of every token to every other is kept."""
    if isinstance(pipeline, ImageClassifier):
        return explain_image(pipeline, example[0])
    if isinstance(pipeline, Translator):
        return explain_translation(pipeline, example[0][:LONGEST_EXAMPLE], ExplainOptions())
    if isinstance(pipeline, Writer):
        return _window(pipeline, example[0])
    assert isinstance(pipeline, EncoderPipeline)
    if isinstance(pipeline, Tagger):
        return explain_row(pipeline, words_row(pipeline, example[0]))
    if isinstance(pipeline, Answerer):
        return explain_answer(pipeline, example.question, example.context)
    if isinstance(pipeline, MaskedModel):
        return explain_row(pipeline, ids_row(pipeline, *pipeline.row_of(example)))
    text = example if isinstance(example, str) else example[0]
    return explain_row(pipeline, text_row(pipeline, text[:LONGEST_EXAMPLE]))


def _window(writer: Writer, ids: list[int]) -> Explanation:
    """The beginning of a window of text."""
    end = writer.tokenizer.eos
    tokens = written_tokens(writer.tokenizer, ids[: min(PROMPT, writer.model.config.context)])
    named = [Token(token.id, END, True) if token.id == end else token for token in tokens]
    return explain_text(writer, named, prompt=writer.tokenizer.decode(ids[:PROMPT]))


def _check_options(pipeline: AnyPipeline, second: str | None, given: Mapping[str, OptionValue]) -> None:
    """Raise an error for options that models of this job do not have."""
    what = JOBS[pipeline.task].what
    uses: dict[str, Callable[[], bool]] = {
        "beam": lambda: isinstance(pipeline, Translator | Writer),
        "target": lambda: isinstance(pipeline, Translator | Writer),
        "length_penalty": lambda: isinstance(pipeline, Translator),
        "length": lambda: isinstance(pipeline, Writer),
    }
    for name, fits in uses.items():
        default = getattr(ExplainOptions(), name)
        if given.get(name, default) != default and not fits():
            raise UsageError(f"{what} has no {name.replace('_', ' ')}")
    if isinstance(pipeline, Answerer) and not (second or "").strip():
        raise UsageError("a question needs a passage that may hold its answer: give it as the second text")
    if second is not None and not isinstance(pipeline, Answerer | MaskedModel):
        raise UsageError(f"{what} reads one text, not two")


def _name(pipeline: AnyPipeline) -> str:
    """The first heading of the model's card, or its job."""
    heading = next((line for line in pipeline.card.splitlines() if line.startswith("# ")), "")
    return heading.removeprefix("# ").strip() or pipeline.task
