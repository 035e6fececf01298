"""Scores, each with what is needed to reproduce it."""

from heedful.evaluation.scores import translation_scores

__all__ = ["translation_scores"]
