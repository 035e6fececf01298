"""Hidden words: guesses with their probabilities, one list for each [MASK]."""

from __future__ import annotations

import pytest
import torch

from conftest import Trained
from heedful.errors import HeedfulError, UsageError
from heedful.models.bert import Bert, BertConfig
from heedful.pipelines import load_pipeline
from heedful.pipelines.masked import MaskedModel
from heedful.text import Tokenizer


@pytest.fixture(scope="module")
def masked(trained: Trained) -> MaskedModel:
    found = load_pipeline(trained("bert-pretraining"))
    assert isinstance(found, MaskedModel)
    return found


def test_guesses_are_the_model_s_probabilities_best_first(masked: MaskedModel) -> None:
    (places,) = masked.fill(["the [MASK] is over 7 rivers ."], top=1000)
    tokenizer = masked.tokenizer
    assert len(places) == 1
    assert len(places[0]) == tokenizer.size
    assert sum(p for _, p in places[0]) == pytest.approx(1.0, abs=1e-4)
    ids = [tokenizer.bos, *tokenizer.encode("the"), masked.mask, *tokenizer.encode("is over 7 rivers ."), tokenizer.eos]
    with torch.no_grad():
        words, _ = masked.model(torch.tensor([ids]))
    best = words[0, 2].softmax(-1).topk(4)
    assert [p for _, p in places[0][:4]] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert [token for token, _ in places[0][:4]] == tokenizer.tokens(best.indices.tolist())


def test_every_mask_of_every_text_has_its_guesses(masked: MaskedModel) -> None:
    texts = ["[MASK]", "the [MASK] is [MASK] [MASK]", "over <mask> rivers", "a[MASK]b"]
    found = masked.fill(texts, top=2)
    assert [len(places) for places in found] == [1, 3, 1, 1]
    assert all(len(guesses) == 2 and guesses[0][1] >= guesses[1][1] for places in found for guesses in places)
    alone = [masked.fill([text], top=2)[0] for text in texts]
    for one, other in zip(found, alone, strict=True):
        assert [[p for _, p in place] for place in one] == [pytest.approx([p for _, p in place], abs=1e-5) for place in other]


def test_a_text_without_a_mask_is_refused(masked: MaskedModel) -> None:
    with pytest.raises(HeedfulError, match=r"there is no \[MASK\] to fill in “the sun”"):
        masked.fill(["the [MASK]", "the sun"])


def test_a_text_too_long_is_refused_rather_than_cut(masked: MaskedModel) -> None:
    with pytest.raises(HeedfulError, match="is too long; the model takes at most 38"):
        masked.fill(["sun " * 60 + "[MASK]"])


def test_a_vocabulary_without_a_mask_is_refused() -> None:
    tokenizer = Tokenizer.train("char", ["abc"], 20)
    model = Bert(BertConfig(tokenizer.size, layers=1, d_model=16, d_ff=16, heads=2, max_positions=16, head="pretraining"))
    with pytest.raises(UsageError, match=r"needs a tokenizer with \[MASK\]"):
        MaskedModel(model, tokenizer, 16)


@pytest.mark.parametrize("kind", ["char", "wordpiece", "bpe"])
def test_a_space_before_a_mask_is_kept_where_it_is_a_token_of_its_own(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, ["ab cd ab cd"] * 3, 290 if kind == "bpe" else 20, masked=True)
    model = Bert(BertConfig(tokenizer.size, layers=1, d_model=16, d_ff=16, heads=2, max_positions=16, head="pretraining"))
    ids = MaskedModel(model, tokenizer, 16).with_masks("ab [MASK]")
    assert ids == [*tokenizer.encode("ab " if kind == "char" else "ab"), tokenizer.mask]


def test_scores_are_shares_of_the_hidden_tokens(masked: MaskedModel) -> None:
    texts = [masked.tokenizer.encode(text) for text in ("the sun is over 7 rivers .", "the rain is over 8 stones .")]
    examples = [(texts[0], texts[1], True), (texts[1], texts[0], False)]
    outputs = masked.predict(examples)
    scores = masked.scores(examples, outputs)
    assert [count for _, count, _, _ in outputs] == [2, 2]  # 15 % of 14
    assert scores["masked_accuracy"] == pytest.approx(100 * sum(row[2] for row in outputs) / 4)
    assert scores["next_accuracy"] in (0.0, 50.0, 100.0)
    assert masked.predict(examples) == outputs, "a validation is always the same"
