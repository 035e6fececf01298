"""Scores, each with what is needed to reproduce it."""

from heedful.evaluation.scores import scorers, translation_scores

__all__ = ["scorers", "translation_scores"]
