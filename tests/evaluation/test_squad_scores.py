"""Exact match and F1 of answers as SQuAD v1.1 counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import HeedfulError
from heedful.evaluation.squad_scores import span_scores

WORDS = st.sampled_from(["the", "The", "a", "An", "Vistula", "river", "river,", "U.S.", "another", "1,000", "—", "  ", "thea"])
ANSWERS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


@pytest.mark.parametrize(
    ("guess", "answers", "exact", "f1"),
    [
        ("The Vistula!", ["vistula"], 100, 100),
        ("the river Vistula", ["Vistula"], 0, 100 * 2 / 3),  # precision 1/2, recall 1
        ("Vistula", ["Danube", "the Vistula"], 100, 100),  # the best of the answers
        ("Danube", ["Vistula"], 0, 0),
        ("very very big", ["very big"], 0, 100 * 4 / 5),  # the second "very" matches nothing
        ("", ["Vistula"], 0, 0),
        ("U.S.", ["US"], 100, 100),
    ],
)
def test_scores_equal_values_computed_by_hand(guess: str, answers: list[str], exact: float, f1: float) -> None:
    assert span_scores([guess], [answers]) == pytest.approx({"exact": exact, "f1": f1})


def test_scores_are_means_over_the_questions() -> None:
    assert span_scores(["yes", "no", "a b c"], [["yes"], ["yes"], ["c d"]]) == pytest.approx(
        {"exact": 100 / 3, "f1": 100 * (1 + 0 + 2 * 1 / 4) / 3}
    )


def by_the_book(guess: str, answer: str) -> tuple[bool, float]:
    """(exact, F1) computed step by step like SQuAD v1.1's script: matching words one by one, then precision and recall."""

    def words(text: str) -> list[str]:
        plain = "".join(character for character in text.lower() if character not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
        return [word for word in plain.split() if word not in ("a", "an", "the")]

    left, same = words(answer), 0
    for word in words(guess):
        if word in left:
            left.remove(word)
            same += 1
    if not same:
        return words(guess) == words(answer), 0.0
    precision, recall = same / len(words(guess)), same / len(words(answer))
    return words(guess) == words(answer), 2 * precision * recall / (precision + recall)


@given(st.lists(st.tuples(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3)), min_size=1, max_size=3))
def test_scores_equal_a_step_by_step_reference(questions: list[tuple[str, list[str]]]) -> None:
    scores = span_scores([guess for guess, _ in questions], [answers for _, answers in questions])
    found = [[by_the_book(guess, answer) for answer in answers] for guess, answers in questions]
    assert scores["exact"] == pytest.approx(100 * sum(max(exact for exact, _ in rivals) for rivals in found) / len(found))
    assert scores["f1"] == pytest.approx(100 * sum(max(f1 for _, f1 in rivals) for rivals in found) / len(found))


def test_an_article_alone_matches_itself_exactly_but_shares_no_word() -> None:
    assert span_scores(["The"], [["a"]]) == {"exact": 100.0, "f1": 0.0}


def test_counts_that_differ_nothing_and_a_question_without_answers_are_errors() -> None:
    with pytest.raises(HeedfulError, match="there are 1 predictions but 2 references"):
        span_scores(["a"], [["a"], ["b"]])
    with pytest.raises(HeedfulError, match="nothing to score"):
        span_scores([], [])
    with pytest.raises(HeedfulError, match="question 2 has no answer"):
        span_scores(["a", "b"], [["a"], []])
