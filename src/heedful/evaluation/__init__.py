"""Scores, each with what is needed to reproduce it."""

from heedful.evaluation.answers import span_scores
from heedful.evaluation.labels import classification_scores, tag_scores, top_scores
from heedful.evaluation.scores import scorers, translation_scores
from heedful.evaluation.summaries import summary_scores

__all__ = [
    "classification_scores",
    "scorers",
    "span_scores",
    "summary_scores",
    "tag_scores",
    "top_scores",
    "translation_scores",
]
