"""Chooses what decodes: heedful itself, or CTranslate2 with the same model."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import HeedfulError
from heedful.jobs.options import Backend
from heedful.models import kind_of
from heedful.pipelines.model_directory import find_directory
from heedful.runtime.files import os_error_sentence

if TYPE_CHECKING:
    from heedful.pipelines.pipeline import AnyPipeline

# Kinds of model that CTranslate2 was measured to decode faster (benchmarks/translate_speed.py), and only without a beam: with
# one, it has to find more hypotheses than are wanted, so that the outputs are those of our search.
FASTER_GREEDY = ("seq2seq",)


def use_backend(pipeline: AnyPipeline, folder: Path, backend: Backend, say: Callable[[str], None]) -> None:
    """Make a pipeline decode with a backend; `auto` is CTranslate2 for greedy search, if installed and fit for the model."""
    if backend == "native" or (backend == "auto" and kind_of(pipeline.model.config) not in FASTER_GREEDY):
        return
    if problem := why_not(pipeline):
        if backend == "ctranslate2":
            raise HeedfulError(f"--backend ctranslate2 cannot be used: {problem}")
        return
    from heedful.interop.ctranslate2 import positions
    from heedful.interop.ctranslate2_cache import converted
    from heedful.interop.ctranslate2_engine import CTranslate2Engine

    try:
        place = converted(pipeline, find_directory(folder), say)
        decoder: Any = pipeline
        decoder.engine = CTranslate2Engine(place, decoder, positions(pipeline), greedy_only=backend == "auto")
    except (OSError, RuntimeError) as error:
        reason = os_error_sentence(error) if isinstance(error, OSError) else str(error)
        if backend == "ctranslate2":
            raise HeedfulError(f"--backend ctranslate2 cannot be used: {reason}") from error
        say(f"decoding without CTranslate2: {reason}")


def why_not(pipeline: AnyPipeline) -> str:
    """Why CTranslate2 cannot decode this model, or an empty string."""
    if kind_of(pipeline.model.config) != "seq2seq":
        return "it decodes translations and summaries by Transformers; use --backend native"
    if find_spec("ctranslate2") is None:
        return "it is not installed; install it with: pip install 'heedful[fast]'"
    from heedful.interop.ctranslate2_spec import inexpressible
    from heedful.interop.known_settings import sentence

    if wrong := inexpressible(pipeline.model.config):
        return sentence("it", wrong)
    if pipeline.device.type not in ("cpu", "cuda"):
        return f"it does not compute on {pipeline.device.type}"
    return ""
