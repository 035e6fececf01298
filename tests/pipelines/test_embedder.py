"""Sentence vectors: the pooling they claim, whatever other sentences are in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.errors import UsageError
from heedful.models.bert import Bert, BertConfig
from heedful.pipelines.embedder import Embedder
from heedful.text import Tokenizer

TEXTS = ["the sun", "the sun is over the river", "", "river", "a very long sentence about the river and the sun " * 5]
TOKENIZER = Tokenizer.train("wordpiece", TEXTS * 2, 120)


@pytest.fixture(scope="module")
def model() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(TOKENIZER.size, layers=2, d_model=32, d_ff=64, heads=4, max_positions=32, dropout=0.1)).eval()


def states_of(model: Bert, text: str, longest: int) -> torch.Tensor:
    ids = [TOKENIZER.bos, *TOKENIZER.encode(text)[: longest - 2], TOKENIZER.eos]
    with torch.no_grad():
        return model.states(torch.tensor([ids]))[0]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_vector_is_the_pooled_states_of_its_own_tokens(pooling: Any, normalize: bool, model: Bert) -> None:
    found = Embedder(model, TOKENIZER, 20, pooling, normalize).embed(TEXTS)
    assert (found.shape, found.dtype) == ((5, 32), np.float32)
    for text, vector in zip(TEXTS, found, strict=True):
        states = states_of(model, text, 20)
        expected = states.mean(0) if pooling == "mean" else states[0]
        expected = expected / expected.norm() if normalize else expected
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)


def test_a_sentence_beside_others_has_the_vector_it_has_alone(model: Bert) -> None:
    embedder = Embedder(model, TOKENIZER, 32)
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], vector, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


def test_no_sentence_gives_no_vector(model: Bert) -> None:
    assert Embedder(model, TOKENIZER, 32).embed([]).shape == (0, 32)


def test_embedding_uses_no_dropout_and_leaves_the_model_as_it_was(model: Bert) -> None:
    embedder = Embedder(model.train(), TOKENIZER, 32)
    np.testing.assert_array_equal(embedder.embed(TEXTS), embedder.embed(TEXTS))
    assert model.training
    model.eval()


def test_wrong_settings_are_named(model: Bert) -> None:
    with pytest.raises(UsageError, match="pooling must be one of mean, cls, not 'max'"):
        Embedder(model, TOKENIZER, 32, "max")  # type: ignore[arg-type]  # not a pooling
    with pytest.raises(UsageError, match="max_length 33 is more than the model's 32 positions"):
        Embedder(model, TOKENIZER, 33)
    with pytest.raises(UsageError, match="no score of its own"):
        Embedder(model, TOKENIZER, 32).predict(["text"])
