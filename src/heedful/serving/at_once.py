"""What a worker answers at once, without a batch, because only foreign APIs ask for it: tokens and unnormalised scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heedful.errors import UsageError
from heedful.settings import JsonObject

if TYPE_CHECKING:
    from heedful.pipelines.pipeline import AnyPipeline


def tokens_of(pipeline: AnyPipeline, text: str, options: JsonObject) -> JsonObject:
    """The tokens of a text with the characters that each covers."""
    tokenizer = next(iter(pipeline.tokenizers.values()), None)
    if tokenizer is None:
        raise UsageError("a model of images has no tokenizer")
    ids, offsets = tokenizer.encode_with_offsets(text)
    rows: list[JsonObject] = [
        {"id": token, "text": name, "special": False, "start": start, "stop": stop}
        for token, name, (start, stop) in zip(ids, tokenizer.tokens(ids), offsets, strict=True)
    ]
    if options.get("add_special_tokens") and pipeline.task not in ("translation", "summarization", "language-model"):
        first, last = (
            {"id": token, "text": str(tokenizer.backend.id_to_token(token)), "special": True, "start": None, "stop": None}
            for token in (tokenizer.bos, tokenizer.eos)
        )
        rows = [first, *rows, last]
    return {"tokens": rows}


def logits_of(pipeline: AnyPipeline, text: str, options: JsonObject) -> JsonObject:
    """The classes of a text with the numbers that softmax turns into probabilities, highest first."""
    from heedful.pipelines.classifier import Classifier

    if not isinstance(pipeline, Classifier):
        raise UsageError("only a text classifier has scores of classes")
    ((_, logits),) = pipeline.outputs(pipeline.encode([text]))
    labels = sorted(zip(logits.tolist(), pipeline.labels, strict=True), reverse=True)
    return {"labels": [{"label": label, "probability": score} for score, label in labels]}


AT_ONCE: dict[str, Callable[[AnyPipeline, Any, JsonObject], JsonObject]] = {"tokenize": tokens_of, "logits": logits_of}
