"""heedful: the Transformer as software people can use.

>>> import heedful
>>> translator = heedful.load("runs/dates/best")            # doctest: +SKIP
>>> translator.translate("15. November 2026", beam=4)       # doctest: +SKIP
'2026-11-15'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from pathlib import Path

    from heedful.errors import HeedfulError as HeedfulError
    from heedful.models.seq2seq import make_model as make_model
    from heedful.pipelines.answerer import Answerer as Answerer
    from heedful.pipelines.classifier import Classifier as Classifier
    from heedful.pipelines.embedder import Embedder as Embedder
    from heedful.pipelines.image_classifier import ImageClassifier as ImageClassifier
    from heedful.pipelines.masked import MaskedModel as MaskedModel
    from heedful.pipelines.summarizer import Summarizer as Summarizer
    from heedful.pipelines.tagger import Tagger as Tagger
    from heedful.pipelines.translator import Translator as Translator
    from heedful.pipelines.writer import Writer as Writer

__version__ = "0.1.0"

# Imported when first used, so that `import heedful` (and `heedful --help`) does not wait for PyTorch.
_WHERE = {
    "Translator": "heedful.pipelines.translator",
    "HeedfulError": "heedful.errors",
    "make_model": "heedful.models.seq2seq",
}
__all__ = ["HeedfulError", "Translator", "load", "make_model"]


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["translation"]) -> Translator: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["summarization"]) -> Summarizer: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["language-model"]) -> Writer: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["bert-pretraining"]) -> MaskedModel: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["classification"]) -> Classifier: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["tagging"]) -> Tagger: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["question-answering"]) -> Answerer: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["image-classification"]) -> ImageClassifier: ...


@overload
def load(folder: str | Path, device: str = "auto", *, job: Literal["embedding"]) -> Embedder: ...


@overload
def load(folder: str | Path, device: str = "auto") -> Any: ...


def load(folder: str | Path, device: str = "auto", *, job: str | None = None) -> Any:
    """Load a trained model from its directory, or the best model of a run; `device="auto"` uses a GPU if there is one.

    What the model can do depends on its job: `translate`, `summarize`, `generate`, `fill`, `embed`, `classify`, `tag`, `answer`.
    With `job`, a model of any other job is an error, and type checkers know the type of the result.
    """
    from heedful.jobs.registry import JOBS
    from heedful.pipelines.load import load_pipeline
    from heedful.runtime.device import pick_device

    if job is None:
        return load_pipeline(folder, pick_device(device))
    if job not in JOBS:
        from heedful.errors import UsageError, did_you_mean

        raise UsageError(f"there is no job '{job}'{did_you_mean(job, JOBS)}")
    return JOBS[job].pipeline_class.load(folder, pick_device(device))


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'heedful' has no attribute '{name}'")
