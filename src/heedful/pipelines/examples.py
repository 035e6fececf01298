"""Held-out data of any job, read as the job's `predict` takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.data.corpus import Drops, ParallelFiles, read_aligned
from heedful.errors import HeedfulError, UsageError
from heedful.pipelines.directory import Pipeline


def read_examples(pipeline: Pipeline, data: Path | None, source: Path | None = None, reference: Path | None = None) -> list[Any]:
    """The examples of a file (of a folder for images, of two aligned files for a translation)."""
    if pipeline.task == "translation" and source is not None and reference is not None:
        return [pair for _, pair in read_aligned(source, reference)]
    if source is not None or reference is not None:
        raise UsageError("a translation takes --source and --reference together; any other job takes its data as one argument")
    if data is None:
        needed = "--source FILE --reference FILE" if pipeline.task == "translation" else "its held-out data: a file or a folder"
        raise UsageError(f"nothing to score on; give {needed}")
    drops = Drops()
    examples = _read(pipeline, data, drops)
    if not examples:
        raise HeedfulError(f"no usable example in {data}: {drops.describe()}")
    return examples


def _read(pipeline: Any, data: Path, drops: Drops) -> list[Any]:
    task = pipeline.task
    if task == "translation":
        return list(ParallelFiles(data).read(drops))
    if task == "summarization":
        from heedful.data.documents import read_summaries

        return list(read_summaries(data, drops))
    if task == "language-model":
        from heedful.data.text import blocks_of
        from heedful.pipelines.writer import windows_of

        return list(windows_of("".join(blocks_of(data)), pipeline.tokenizer, pipeline.model.config.context))
    if task == "bert-pretraining":
        from heedful.data.documents import read_documents
        from heedful.pipelines.masked import chunks_of, pairs_of

        documents = enumerate(read_documents(data, drops))
        rows = [(n, c) for n, text in documents for c in chunks_of(text, pipeline.tokenizer, pipeline.max_length)]
        return list(pairs_of(rows))
    if task == "tagging":
        from heedful.data.conll import read_conll

        return list(read_conll(data, drops))
    if task == "question-answering":
        from heedful.data.squad import read_squad

        return list(read_squad(data, drops))
    if task == "image-classification":
        return list(pipeline.examples_of(data, drops))
    if task == "classification":
        from heedful.data.labelled import read_labelled

        return list(read_labelled(data, drops))
    raise UsageError("a sentence encoder has no score of its own; train a classifier on it with model.pretrained=DIR")
