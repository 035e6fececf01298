"""Scores as they are displayed, and how they rank models."""

from __future__ import annotations

import math
from itertools import pairwise

from heedful.evaluation.score_names import one_line, ranking


def test_a_tie_of_the_metric_is_broken_by_the_loss() -> None:
    worse, better = {"exact": 0.0, "loss": 4.0, "bleu": 3.0}, {"exact": 0.0, "loss": 2.0, "bleu": 1.0}
    assert ranking(better, "exact") > ranking(worse, "exact")


def test_a_tie_without_a_loss_is_broken_by_the_other_scores() -> None:
    assert ranking({"exact": 0.0, "f1": 3.0}, "exact") > ranking({"exact": 0.0, "f1": 1.0}, "exact")


def test_a_score_that_is_not_finite_ranks_below_every_other() -> None:
    scores = [{"loss": math.nan}, {"loss": 1e30}, {"loss": 1.0}]
    assert all(ranking(first, "loss") < ranking(second, "loss") for first, second in pairwise(scores))
    assert not ranking({"loss": math.nan}, "loss") > ranking({"loss": math.inf}, "loss")


def test_scores_that_are_not_finite_are_shown_as_such() -> None:
    assert one_line({"accuracy": 50.0, "loss": math.nan}) == "accuracy 50.00 %  loss not finite"
    assert one_line({"accuracy": 50.0, "loss": None}) == "accuracy 50.00 %  loss not finite"
