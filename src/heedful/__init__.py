"""heedful: the Transformer as software people can use.

>>> import heedful
>>> translator = heedful.load("runs/dates/best")            # doctest: +SKIP
>>> translator.translate("15. November 2026", beam=4)       # doctest: +SKIP
'2026-11-15'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from heedful.errors import HeedfulError as HeedfulError
    from heedful.models.seq2seq import make_model as make_model
    from heedful.pipelines.translator import Translator as Translator

__version__ = "0.1.0"

# Imported when first used, so that `import heedful` (and `heedful --help`) does not wait for PyTorch.
_WHERE = {
    "Translator": "heedful.pipelines.translator",
    "HeedfulError": "heedful.errors",
    "make_model": "heedful.models.seq2seq",
}
__all__ = ["HeedfulError", "Translator", "load", "make_model"]


def load(folder: str | Path, device: str = "auto") -> Any:
    """A trained model from its directory (or the best one of a run), ready to use; `auto` is a GPU where there is one.

    What it can do depends on its job: `translate`, `generate`, `fill`, `embed`, `classify`, `tag`, `answer`.
    """
    from heedful.pipelines import load_pipeline
    from heedful.runtime.device import pick_device

    return load_pipeline(folder, pick_device(device))


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'heedful' has no attribute '{name}'")
