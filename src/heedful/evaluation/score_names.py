"""The name and number format of every score, wherever one is displayed; and the order in which scores rank models."""

from __future__ import annotations

import math
from typing import NotRequired, TypeAlias, TypedDict

from heedful.settings import JsonObject

Scores: TypeAlias = JsonObject  # numbers by the keys of SHOWN; also signatures, which are text, and `samples`
Sample: TypeAlias = dict[str, str]  # `input`, `output` and `reference`; also the `image`, or the `passage` of a question

# Key → (name, format), in display order.
SHOWN = {
    "bleu": ("BLEU", "{:.2f}"),
    "chrf": ("chrF", "{:.2f}"),
    "length_ratio": ("length ratio", "{:.3f}"),
    "rouge1": ("ROUGE-1", "{:.2f}"),
    "rouge2": ("ROUGE-2", "{:.2f}"),
    "rougeL": ("ROUGE-L", "{:.2f}"),
    "accuracy": ("accuracy", "{:.2f} %"),
    "top5": ("top-5", "{:.2f} %"),
    "macro_f1": ("macro-F1", "{:.2f} %"),
    "exact": ("exact match", "{:.2f} %"),
    "f1": ("F1", "{:.2f} %"),
    "precision": ("precision", "{:.2f} %"),
    "recall": ("recall", "{:.2f} %"),
    "masked_accuracy": ("masked words right", "{:.2f} %"),
    "next_accuracy": ("next sentence right", "{:.2f} %"),
    "perplexity": ("perplexity", "{:.3f}"),
    "bits_per_byte": ("bits per byte", "{:.3f}"),
    "loss": ("loss", "{:.4f}"),
}
LOWER_IS_BETTER = ("perplexity", "bits_per_byte", "loss")


class RunResults(TypedDict):
    """The `results.json` of a run."""

    steps: int
    seconds: float
    scored: str  # how these scores differ from those of validation during training; may be empty
    final: dict[str, Scores]  # by `validation` and `test`
    best: dict[str, Scores]
    samples: list[Sample]
    unfinished: NotRequired[str]  # for a stopped run: the step it stopped at


def shown_scores(scores: Scores) -> dict[str, str]:
    """Name → formatted value of the given scores. The loss is left out where perplexity already expresses it."""
    found = {label: _written(scores[key], pattern) for key, (label, pattern) in SHOWN.items() if key in scores}
    if "perplexity" in scores:
        found.pop("loss", None)
    return found


def one_line(scores: Scores) -> str:
    """`BLEU 31.40  chrF 55.20  exact match 8.10 %  perplexity 5.120`"""
    return "  ".join(f"{label} {value}" for label, value in shown_scores(scores).items())


def _written(value: float | None, pattern: str) -> str:
    return "not finite" if value is None or not math.isfinite(value) else pattern.format(value)


def ranking(scores: Scores, metric: str) -> list[float]:
    """Values to compare two models by, larger is better: the metric, then the loss as tie-breaker, then the rest.

    A score that is not finite ranks below every other.
    """
    others = [key for key in SHOWN if key in scores and key not in (metric, "length_ratio")]
    keys = [metric, *sorted(others, key=lambda key: key != "loss")]
    signed = [-scores[key] if key in LOWER_IS_BETTER else scores[key] for key in keys]
    return [float(value) if math.isfinite(value) else -math.inf for value in signed]
