"""BLEU and chrF equal sacreBLEU's and are reported with its signatures."""

from __future__ import annotations

import importlib.util

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

from heedful.errors import HeedfulError, UsageError
from heedful.evaluation.bleu import translation_scores

WRITTEN = ["A man stands on a ladder .", "Two dogs play in the snow.", "", "the cat", "Ein Tee, bitte!"]
RIGHT = ["A man is standing on a ladder.", "Two dogs play in the snow.", "nothing", "The cat ", "Einen Tee, bitte!"]


@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "intl", "zh"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_and_chrf_equal_sacrebleu(tokenize: str, lowercase: bool) -> None:
    scores = translation_scores(WRITTEN, RIGHT, tokenize, lowercase)
    bleu = sacrebleu.corpus_bleu(WRITTEN, [RIGHT], tokenize=tokenize, lowercase=lowercase)
    assert scores["bleu"] == pytest.approx(bleu.score, abs=1e-9)
    assert scores["length_ratio"] == bleu.sys_len / bleu.ref_len < 1.0
    assert scores["chrf"] == pytest.approx(CHRF(lowercase=lowercase).corpus_score(WRITTEN, [RIGHT]).score, abs=1e-9)


def test_the_defaults_are_those_of_sacrebleu() -> None:
    scores = translation_scores(WRITTEN, RIGHT)
    assert scores["bleu"] == pytest.approx(BLEU().corpus_score(WRITTEN, [RIGHT]).score, abs=1e-9)
    assert scores["bleu"] < translation_scores(WRITTEN, RIGHT, lowercase=True)["bleu"]


@pytest.mark.parametrize(("tokenize", "lowercase"), [("13a", False), ("char", True)])
def test_the_signatures_are_those_of_sacrebleu(tokenize: str, lowercase: bool) -> None:
    scores = translation_scores(WRITTEN, RIGHT, tokenize, lowercase)
    bleu, chrf = BLEU(tokenize=tokenize, lowercase=lowercase), CHRF(lowercase=lowercase)
    bleu.corpus_score(WRITTEN, [RIGHT])
    chrf.corpus_score(WRITTEN, [RIGHT])
    assert scores["bleu_signature"] == str(bleu.get_signature())
    assert scores["chrf_signature"] == str(chrf.get_signature())
    assert f"tok:{tokenize}" in scores["bleu_signature"]
    assert f"version:{sacrebleu.__version__}" in scores["bleu_signature"]


def test_perfect_translations_score_a_hundred() -> None:
    scores = translation_scores(RIGHT, RIGHT)
    assert (scores["bleu"], scores["chrf"], scores["exact"]) == pytest.approx((100.0, 100.0, 100.0))


def test_exact_match_is_the_percentage_of_equal_lines_ignoring_surrounding_spaces() -> None:
    assert translation_scores(["a", "b ", "C", ""], ["a", " b", "c", "d"])["exact"] == 50.0
    assert translation_scores(["2026-11-15"], ["2026-11-16"])["exact"] == 0.0


def test_different_numbers_of_lines_name_both() -> None:
    with pytest.raises(HeedfulError, match="there are 5 translations but 1,200 references"):
        translation_scores(WRITTEN, ["x"] * 1200)


def test_nothing_to_score_says_so() -> None:
    with pytest.raises(HeedfulError, match="nothing to score"):
        translation_scores([], [])


def test_an_unknown_tokenizer_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="sacreBLEU has no tokenizer '13b'; did you mean '13a'"):
        translation_scores(WRITTEN, RIGHT, "13b")
    with pytest.raises(UsageError, match=r"no tokenizer ''; known: .*13a.*zh"):
        translation_scores(WRITTEN, RIGHT, "")


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="the package is there")
def test_a_tokenizer_that_lacks_its_package_says_which() -> None:
    with pytest.raises(HeedfulError, match=r"'ja-mecab' cannot be used: .*pip install sacrebleu\[ja\]"):
        translation_scores(WRITTEN, RIGHT, "ja-mecab")
