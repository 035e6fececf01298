"""ROUGE: worked out by hand, and a sentence when the package is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from heedful.errors import HeedfulError
from heedful.evaluation.rouge import summary_scores


def test_rouge_is_what_it_is_by_hand() -> None:
    # Words in common: 3 of 4 and 3 of 3. Pairs: "cat sat", 1 of 3 and 1 of 2. Longest in order: "cat sat", 2 of 4 and 2 of 3.
    scores = summary_scores(["the cat sat down"], ["cat sat the"])
    assert scores == pytest.approx({"rouge1": 100 * 6 / 7, "rouge2": 100 * 2 / 5, "rougeL": 100 * 4 / 7})


def test_scores_are_means_and_the_stemmer_is_on() -> None:
    assert summary_scores(["He walked home.", "nothing"], ["he walks HOME", "something"]) == pytest.approx(
        {"rouge1": 50.0, "rouge2": 50.0, "rougeL": 50.0}
    )


def test_counts_that_differ_and_nothing_at_all_are_errors() -> None:
    with pytest.raises(HeedfulError, match="there are 1 predictions but 2 right answers"):
        summary_scores(["a"], ["a", "b"])
    with pytest.raises(HeedfulError, match="nothing to score"):
        summary_scores([], [])


def test_without_the_package_one_sentence_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['rouge_score'] = None\n"
        "from heedful.errors import HeedfulError\n"
        "from heedful.evaluation.rouge import summary_scores\n"
        "try:\n    summary_scores(['a'], ['a'])\n"
        "except HeedfulError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "summaries are scored by the package rouge-score: pip install 'heedful[summarization]'\n"
