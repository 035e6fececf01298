"""What models did and why: explanations of single inputs, summaries of heads, positions, curves, comparisons, the report.

>>> from heedful.explain import explain
>>> explanation = explain(heedful.load("runs/dates"), "15. November 2026")      # doctest: +SKIP
>>> explanation.attention_of("cross").layers[-1].weights.shape                  # doctest: +SKIP
(4, 11, 18)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful.explain.any_model import explain as explain
    from heedful.explain.explanation import Explanation as Explanation

# Imported when first used: writing a report needs neither matplotlib nor every pipeline.
_WHERE = {"explain": "heedful.explain.any_model", "Explanation": "heedful.explain.explanation"}
__all__ = ["Explanation", "explain"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'heedful.explain' has no attribute '{name}'")
