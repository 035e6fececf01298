"""Trained models ready to be used, one file a job: text or images in, answers out. Each lives in a model directory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import HeedfulError

if TYPE_CHECKING:
    import torch

# Task → what people call such a model, and the class that uses it.
TASKS = {
    "translation": ("a translation model", "heedful.pipelines.translator", "Translator"),
    "summarization": ("a summarization model", "heedful.pipelines.translator", "Summarizer"),
    "language-model": ("a language model", "heedful.pipelines.writer", "Writer"),
    "bert-pretraining": ("a masked language model", "heedful.pipelines.masked", "MaskedModel"),
    "embedding": ("a sentence encoder", "heedful.pipelines.embedder", "Embedder"),
    "classification": ("a text classifier", "heedful.pipelines.classifier", "Classifier"),
    "tagging": ("a tagger", "heedful.pipelines.tagger", "Tagger"),
    "question-answering": ("a question-answering model", "heedful.pipelines.answerer", "Answerer"),
    "image-classification": ("an image classifier", "heedful.pipelines.images", "ImageClassifier"),
}


def pipeline_class(task: str) -> Any:
    """The class that uses a model of this task."""
    _, module, name = TASKS[task]
    return getattr(import_module(module), name)


def load_pipeline(folder: str | Path, device: str | torch.device = "cpu", verb: str = "", tasks: tuple[str, ...] = ()) -> Any:
    """The model in a directory (or the best one of a run), ready to use.

    A verb that only fits some tasks names them, and a model of another kind is refused in words.
    """
    from heedful.pipelines.directory import find_directory, read_config

    found = find_directory(Path(folder))
    task = read_config(found)["task"]
    if tasks and task not in tasks:
        needed = " or ".join(TASKS[name][0] for name in tasks)
        raise HeedfulError(f"{folder} is {TASKS[task][0]}; `{verb}` needs {needed}")
    return pipeline_class(task).load(found, device)
