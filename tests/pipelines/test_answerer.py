"""Answers: always a part of the passage, the best span among those allowed, wherever in the passage it is."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Trained
from heedful.models.bert import Bert, BertConfig
from heedful.pipelines import load_pipeline
from heedful.pipelines.answerer import Answerer
from heedful.text import Tokenizer

PASSAGE = "Person 1a lives in Oslo. Person 1b lives in Rome. Person 1c lives in Quito."
TOKENIZER = Tokenizer.train("wordpiece", [PASSAGE, "Where does person live ?"] * 3, 150)


def answerer_with(max_length: int = 64, stride: int = 8, max_answer: int = 5) -> Answerer:
    torch.manual_seed(1)
    model = Bert(BertConfig(TOKENIZER.size, 1, 16, 32, 2, max_positions=64, head="token", classes=2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return Answerer(model.eval(), TOKENIZER, max_length, stride, max_answer)


RANDOM = {length: answerer_with(length) for length in (24, 64)}


@settings(deadline=None, max_examples=60)
@given(question=st.text(max_size=30), passage=st.text(max_size=200), length=st.sampled_from([24, 64]))
def test_an_answer_is_always_a_part_of_the_passage(question: str, passage: str, length: int) -> None:
    ((text, probability),) = RANDOM[length].answer([(question, passage)])
    assert text in passage
    assert 0.0 <= probability <= 1.0 + 1e-6


def test_the_answer_is_the_best_span_that_is_not_too_long() -> None:
    answerer = answerer_with(max_answer=3)
    ((text, probability),) = answerer.answer([("Where does person 1b live?", PASSAGE)])
    asked = TOKENIZER.encode("Where does person 1b live?")
    ids, offsets = TOKENIZER.encode_with_offsets(PASSAGE)
    row = [TOKENIZER.bos, *asked, TOKENIZER.eos, *ids, TOKENIZER.eos]
    segments = [0] * (len(asked) + 2) + [1] * (len(ids) + 1)
    with torch.no_grad():
        logits = answerer.model(torch.tensor([row]), torch.tensor([segments]))
    assert isinstance(logits, torch.Tensor)
    inside = logits[0, len(asked) + 2 : -1]
    spans = {
        (first, last): float(inside[first, 0] + inside[last, 1])
        for first in range(len(ids))
        for last in range(first, min(first + 3, len(ids)))
    }
    first, last = max(spans, key=lambda span: spans[span])
    assert text == PASSAGE[offsets[first][0] : offsets[last][1]]
    assert probability == pytest.approx(math.exp(spans[first, last]) / sum(map(math.exp, spans.values())), rel=1e-3)


def test_a_passage_of_any_length_is_read_to_its_end() -> None:
    """A model that looks for one word finds it wherever it is."""
    answerer = answerer_with(24, 6)
    wanted = TOKENIZER.encode("Quito")
    with torch.no_grad():
        for name, parameter in answerer.model.named_parameters():
            parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        answerer.model.embedding.weight[wanted] = torch.randn(16)
        answerer.model.classifier.weight.copy_(answerer.model.states(torch.tensor([wanted]))[0, 0].expand(2, 16))
    filler = "Person lives in Oslo. " * 12
    for before in (0, 1, 7, 23, 60, len(filler)):
        passage = f"{filler[:before]} Quito {filler[before:]}"
        assert answerer.answer([("Where ?", passage)])[0][0] == "Quito"


def test_questions_answered_together_have_the_answers_they_have_alone(trained: Trained) -> None:
    answerer = load_pipeline(trained("question-answering"))
    questions = [("Where does person 3b live?", PASSAGE), ("Where?", PASSAGE * 6), ("", "Oslo"), ("Where?", ""), ("Who?", "  ")]
    together = answerer.answer(questions)
    for question, (text, probability) in zip(questions, together, strict=True):
        alone = answerer.answer([question])[0]
        assert alone == (text, pytest.approx(probability, rel=1e-3, abs=1e-6))
    assert together[3:] == [("", 0.0), ("", 0.0)]
