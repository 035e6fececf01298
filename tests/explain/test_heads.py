"""What heads do on average, and what they attend to when a word is read, against weights made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heedful.errors import UsageError
from heedful.explain.explanation import AttentionLayer, AttentionMap, Explanation, Token, TokenSequence
from heedful.explain.heads import MEASURES, is_punctuation, summarize_heads
from heedful.explain.word_attention import numbered, word_attention, words_of

TOKENS = [
    Token(0, "[CLS]", True),
    Token(1, "it", False, 0),
    Token(2, "sle", False, 1),
    Token(3, "##eps", False, 1),
    Token(4, ".", False, 2),
]
UNIFORM = np.full((5, 5), 0.2)
PREVIOUS = np.eye(5, k=-1) + np.eye(5)[:, :1] @ np.eye(1, 5)  # the first attends to itself


def explanation(*heads: Any, tokens: list[Token] = TOKENS, keys: list[Token] | None = None) -> Explanation:
    """One layer with these heads; self-attention unless there are other keys."""
    layer = AttentionLayer(1, np.stack(heads).astype(np.float32), None)
    sequences = {"input": TokenSequence(tokens), "other": TokenSequence(keys or [])}
    one = AttentionMap("encoder" if keys is None else "cross", "", "input", "input" if keys is None else "other", [layer])
    return Explanation("fill", "fill", "bert", "model", "it sleeps.", "", sequences, [one])


def test_measures_are_those_of_weights_made_by_hand() -> None:
    summary = summarize_heads([explanation(PREVIOUS, UNIFORM)] * 3)
    assert summary.texts == 3
    back, even = (one.values for one in summary.heads)
    assert [(one.part, one.layer, one.head) for one in summary.heads] == [("encoder", 1, 1), ("encoder", 1, 2)]
    expected = {
        "entropy": 0.0,
        "distance": 0.8,
        "previous": 1.0,
        "same": 0.2,
        "next": 0.0,
        "first": 0.4,
        "punctuation": 0.0,
        "special": 0.4,
    }
    assert back == {name: pytest.approx(value, abs=1e-6) for name, value in expected.items()}
    expected = {
        "entropy": np.log2(5), "distance": 1.6, "previous": 0.2, "same": 0.2, "next": 0.2, "first": 0.2, "punctuation": 0.2,
        "special": 0.2,
    }  # fmt: skip
    assert even == {name: pytest.approx(value, abs=1e-6) for name, value in expected.items()}
    assert set(even) == set(MEASURES)


def test_texts_count_by_their_length_and_positions_only_within_one_sequence() -> None:
    short = explanation(np.array([[1.0]]), tokens=TOKENS[:1])
    found = summarize_heads([short, explanation(UNIFORM)]).heads[0].values
    assert found["first"] == pytest.approx((1.0 + 5 * 0.2) / 6)
    assert found["previous"] == pytest.approx(0.2)  # a single token has none before it
    cross = summarize_heads([explanation(np.full((5, 2), 0.5), keys=TOKENS[:2])])
    assert [name for name, value in cross.heads[0].values.items() if value is None] == ["distance", "previous", "same", "next"]
    (table,) = cross.tables()
    assert list(table.columns) == ["head", "entropy", "first", "punctuation", "special"]
    assert np.isnan(cross.matrix("cross", "distance")).all()


@pytest.mark.parametrize(
    ("text", "found"), [(".", True), (" ,", True), ("##!", True), ("…", True), ("€", True), ("a.", False), ("", False)]
)
def test_punctuation_is_marks_and_symbols_alone(text: str, found: bool) -> None:
    assert is_punctuation(Token(1, text)) == found
    assert not is_punctuation(Token(1, text, True))


def test_subwords_are_merged_when_a_word_is_read() -> None:
    weights = np.array(
        [
            [1.0, 0.0, 0.0, 0.0, 0.0],
            [0.1, 0.2, 0.3, 0.3, 0.1],
            [0.0, 0.4, 0.1, 0.1, 0.4],
            [0.2, 0.0, 0.2, 0.6, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    assert [word.text for word in words_of(TokenSequence(TOKENS))] == ["[CLS]", "it", "sleeps", "."]
    (found,) = word_attention(explanation(weights, UNIFORM), "IT").parts
    assert found.words == ["[CLS]", "it", "sleeps", "."]
    np.testing.assert_allclose(found.weights[0, 0], [0.1, 0.2, 0.6, 0.1], atol=1e-6)
    (found,) = word_attention(explanation(weights, UNIFORM), "sleeps").parts
    np.testing.assert_allclose(found.weights[0, 0], [0.1, 0.2, 0.5, 0.2], atol=1e-6)  # the mean of its two tokens
    np.testing.assert_allclose(found.weights[0, 1], [0.2, 0.2, 0.4, 0.2], atol=1e-6)
    (table,) = word_attention(explanation(weights, UNIFORM), "sleeps").tables()
    assert [cell.text for cell in table.rows[0]] == ["layer 1 head 1", "sleeps 50.0%", "it 20.0%", ". 20.0%", "[CLS] 10.0%"]


def test_a_word_that_occurs_twice_is_named_by_its_number() -> None:
    tokens = [Token(1, "it", False, 0), Token(2, "is", False, 1), Token(1, "It", False, 2)]
    twice = explanation(np.eye(3), tokens=tokens)
    assert word_attention(twice, "it").parts[0].weights[0, 0].tolist() == [1, 0, 0]
    second = word_attention(twice, "it#2")
    assert numbered(["is", "it", "Is", "it", "it"]) == ["is", "it", "Is#2", "it#2", "it#3"]
    assert second.parts[0].weights[0, 0].tolist() == [0, 0, 1]
    assert "Number 2 of 2" in second.tables()[0].about
    for wanted, message in (
        ("it#3", "no number 3"),
        ("that", "no word “that” here; it reads: it, is, It"),
        ("it#0", "no number 0"),
    ):
        with pytest.raises(UsageError, match=message):
            word_attention(twice, wanted)
