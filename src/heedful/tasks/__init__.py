"""Jobs as the trainer sees them: how data is prepared and dealt out, the loss, and the validation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedful.tasks.task import Task

WHERE = {
    "translation": ("heedful.tasks.translation", "TranslationTask"),
    "summarization": ("heedful.tasks.translation", "SummarizationTask"),
    "language-model": ("heedful.tasks.language_model", "LanguageModelTask"),
    "bert-pretraining": ("heedful.tasks.pretraining", "PretrainingTask"),
    "classification": ("heedful.tasks.classification", "ClassificationTask"),
    "tagging": ("heedful.tasks.tagging", "TaggingTask"),
    "question-answering": ("heedful.tasks.answering", "AnsweringTask"),
    "image-classification": ("heedful.tasks.images", "ImageTask"),
}


def task_class(name: str) -> type[Task]:
    """The class behind a recipe's `task`."""
    module, found = WHERE[name]
    task: type[Task] = getattr(import_module(module), found)
    return task
