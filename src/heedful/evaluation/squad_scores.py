"""Exact match and F1 of answers, as defined by SQuAD v1.1."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from heedful.errors import HeedfulError
from heedful.evaluation.classification import check_counts

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def span_scores(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """`exact` match and word-level `f1` in per cent, each against the best-matching reference answer.

    Case, ASCII punctuation, English articles and spaces are ignored. As in SQuAD's own script, an answer with no words left
    after that has F1 0.
    """
    check_counts(predicted, answers)
    if not all(answers):
        raise HeedfulError(
            f"question {next(n for n, given in enumerate(answers, 1) if not given):,} has no answer to score against"
        )
    pairs = [[(normalise(guess), normalise(answer)) for answer in given] for guess, given in zip(predicted, answers, strict=True)]
    exact = sum(any(guess == answer for guess, answer in candidates) for candidates in pairs)
    f1 = sum(max(_word_f1(guess, answer) for guess, answer in candidates) for candidates in pairs)
    return {"exact": 100.0 * exact / len(pairs), "f1": 100.0 * f1 / len(pairs)}


def normalise(text: str) -> list[str]:
    """The words of an answer that are compared."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def _word_f1(guess: list[str], answer: list[str]) -> float:
    same = (Counter(guess) & Counter(answer)).total()
    return 2 * same / (len(guess) + len(answer)) if same else 0.0
