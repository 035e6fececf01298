"""ROUGE equals values computed by hand, and a missing package is a clear error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from heedful.errors import HeedfulError
from heedful.evaluation.rouge import summary_scores


def test_rouge_equals_values_computed_by_hand() -> None:
    # Common unigrams: 3 of 4 and 3 of 3. Common bigrams: "cat sat", 1 of 3 and 1 of 2. LCS: "cat sat", 2 of 4 and 2 of 3.
    scores = summary_scores(["the cat sat down"], ["cat sat the"])
    assert scores == pytest.approx({"rouge1": 100 * 6 / 7, "rouge2": 100 * 2 / 5, "rougeL": 100 * 4 / 7})


def test_scores_are_means_and_the_stemmer_is_on() -> None:
    assert summary_scores(["He walked home.", "nothing"], ["he walks HOME", "something"]) == pytest.approx(
        {"rouge1": 50.0, "rouge2": 50.0, "rougeL": 50.0}
    )


def test_counts_that_differ_and_nothing_at_all_are_errors() -> None:
    with pytest.raises(HeedfulError, match="there are 1 predictions but 2 references"):
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
    assert said == "scoring summaries needs the package rouge-score; install it with: pip install 'heedful[summarization]'\n"
