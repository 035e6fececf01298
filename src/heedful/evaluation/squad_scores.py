"""Scores of answers to questions, as SQuAD v1.1 defines them."""

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
    """`exact` match and `f1` of words in per cent, each against the nearest of a question's answers.

    Case, ASCII punctuation, English articles and spaces do not count. As in SQuAD's own script, an answer that has no
    words left shares none with any other, so its F1 is 0.
    """
    check_counts(predicted, answers)
    if not all(answers):
        raise HeedfulError(
            f"question {next(n for n, given in enumerate(answers, 1) if not given):,} has no answer to score against"
        )
    pairs = [[(normalise(guess), normalise(answer)) for answer in given] for guess, given in zip(predicted, answers, strict=True)]
    exact = sum(any(guess == answer for guess, answer in rivals) for rivals in pairs)
    f1 = sum(max(_word_f1(guess, answer) for guess, answer in rivals) for rivals in pairs)
    return {"exact": 100.0 * exact / len(pairs), "f1": 100.0 * f1 / len(pairs)}


def normalise(text: str) -> list[str]:
    """The words of an answer that count."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def _word_f1(guess: list[str], answer: list[str]) -> float:
    same = (Counter(guess) & Counter(answer)).total()
    return 2 * same / (len(guess) + len(answer)) if same else 0.0
