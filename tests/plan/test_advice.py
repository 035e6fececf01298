"""People with few pairs read what to expect and what helps; those with many get no advice."""

from __future__ import annotations

from heedful.plan.advice import FEW, advice


def test_few_pairs_are_told_what_to_expect_and_what_helps() -> None:
    expect, helps = advice(2_000, {"model.pretrained": ""})
    assert expect.startswith("2,000 pairs are few")
    assert "BLEU" in expect
    assert helps.index("more pairs") < helps.index("model.pretrained") < helps.index("data.monolingual_target")
    assert not advice(FEW, {})


def test_nobody_is_advised_what_they_do_already() -> None:
    assert "model.pretrained" not in advice(500, {"model.pretrained": "runs/parent"})[1]
    assert "monolingual" not in advice(500, {"data.monolingual_target": "more.de"})[1]
