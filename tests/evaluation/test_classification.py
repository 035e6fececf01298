"""Scores of labels and tags equal scikit-learn's and seqeval's."""

from __future__ import annotations

import importlib
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.errors import HeedfulError
from heedful.evaluation.classification import classification_scores, find_spans, tag_scores, top_scores

LABELS = st.sampled_from(["cat", "dog", "owl", "0"])
TAGS = st.sampled_from(["O", "O", "B-DAY", "I-DAY", "B-YEAR", "I-YEAR", "S-DAY", "E-DAY"])
TAGGED = st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=4)


@settings(deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=20))
def test_accuracy_and_macro_f1_equal_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    metrics = importlib.import_module("sklearn.metrics")
    predicted, right = [guess for guess, _ in pairs], [label for _, label in pairs]
    scores = classification_scores(predicted, right)
    assert scores["accuracy"] == pytest.approx(100 * metrics.accuracy_score(right, predicted))
    assert scores["macro_f1"] == pytest.approx(100 * metrics.f1_score(right, predicted, average="macro", zero_division=0))


def test_macro_f1_weighs_every_class_equally() -> None:
    # cat: F1 = 2·3 / (4 + 3) = 6/7; dog: never guessed, 0.
    scores = classification_scores(["cat"] * 4, ["cat", "cat", "cat", "dog"])
    assert scores == pytest.approx({"accuracy": 75.0, "macro_f1": 100 * (6 / 7) / 2})


@settings(deadline=None)
@given(TAGGED)
def test_span_scores_of_any_tags_equal_seqeval(sentences: list[list[tuple[str, str]]]) -> None:
    metrics = importlib.import_module("seqeval.metrics")
    predicted, right = [[a for a, _ in sentence] for sentence in sentences], [[b for _, b in sentence] for sentence in sentences]
    scores = tag_scores(predicted, right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns when there is no span, and gives 0 as we do
        assert scores == pytest.approx(
            {
                "accuracy": 100 * metrics.accuracy_score(right, predicted),
                "f1": 100 * metrics.f1_score(right, predicted),
                "precision": 100 * metrics.precision_score(right, predicted),
                "recall": 100 * metrics.recall_score(right, predicted),
            }
        )


def test_a_span_is_correct_only_if_its_words_and_its_type_are() -> None:
    right = [["B-DAY", "O", "B-MONTH", "I-MONTH", "O", "B-YEAR"]]
    predicted = [["B-DAY", "O", "B-MONTH", "O", "O", "B-MONTH"]]
    assert tag_scores(predicted, right) == pytest.approx(
        {"accuracy": 400 / 6, "f1": 100 / 3, "precision": 100 / 3, "recall": 100 / 3}
    )


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["B-A", "I-A", "I-A"], [("A", 0, 3)]),
        (["B-A", "B-A"], [("A", 0, 1), ("A", 1, 2)]),
        (["O", "I-A", "I-B"], [("A", 1, 2), ("B", 2, 3)]),
        (["S-A", "B-A", "E-A", "I-A"], [("A", 0, 1), ("A", 1, 3), ("A", 3, 4)]),
        (["B-X-Y", "I-X-Y"], [("X-Y", 0, 2)]),
        (["NOUN", "NOUN", "O"], [("NOUN", 0, 1), ("NOUN", 1, 2)]),
        ([], []),
    ],
)
def test_spans_begin_and_end_as_conlleval_says(tags: list[str], spans: list[tuple[str, int, int]]) -> None:
    assert find_spans(tags) == spans


def test_a_span_never_runs_into_the_next_sentence() -> None:
    assert tag_scores([["B-A"], ["I-A"]], [["B-A"], ["B-A"]])["f1"] == 100.0


def test_sentences_without_any_word_do_not_divide_by_zero() -> None:
    assert set(tag_scores([[]], [[]]).values()) == {0.0}


def test_top5_looks_at_five_and_accuracy_at_one() -> None:
    ranked = ["abcdef", "bacdef", "bcdeaf", "bcdefa", ""]
    assert top_scores([list(letters) for letters in ranked], ["a"] * 5) == {"accuracy": 20.0, "top5": 60.0}


@pytest.mark.parametrize("score", [classification_scores, tag_scores, top_scores])
def test_counts_that_differ_and_nothing_at_all_are_errors(score: object) -> None:
    assert callable(score)
    with pytest.raises(HeedfulError, match="there are 1 predictions but 2 references"):
        score(["a"], ["a", "b"])
    with pytest.raises(HeedfulError, match="nothing to score"):
        score([], [])


def test_a_sentence_of_another_length_is_named() -> None:
    with pytest.raises(HeedfulError, match="sentence 2 has 3 tags but 2 predicted ones"):
        tag_scores([["O"], ["O", "O"]], [["O"], ["O", "O", "O"]])
