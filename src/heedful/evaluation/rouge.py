"""ROUGE of summaries, by Google's rouge-score package."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.errors import HeedfulError
from heedful.evaluation.classification import check_counts


def summary_scores(predicted: Sequence[str], right: Sequence[str]) -> dict[str, float]:
    """`rouge1`, `rouge2` and `rougeL`: mean F-measures × 100, with the Porter stemmer, as is usual in papers.

    rouge-score keeps only a–z and 0–9, so text in other scripts scores 0.
    """
    check_counts(predicted, right)
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise HeedfulError(
            "scoring summaries needs the package rouge-score; install it with: pip install 'heedful[summarization]'"
        ) from error
    kinds = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(kinds, use_stemmer=True)
    scores = [scorer.score(answer, guess) for guess, answer in zip(predicted, right, strict=True)]
    return {kind: 100.0 * sum(score[kind].fmeasure for score in scores) / len(scores) for kind in kinds}
