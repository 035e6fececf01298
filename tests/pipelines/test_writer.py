"""A language model at work: what it writes, and how well it foresaw a text."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from heedful.data.text_windows import text_windows
from heedful.models.gpt import GPT, GPTConfig
from heedful.pipelines.writer import Writer
from heedful.text import Tokenizer

TEXT = "the sun is over the river, und der Fluß liegt unter der Sonne.\n" * 3


@pytest.fixture(scope="module")
def writer() -> Writer:
    tokenizer = Tokenizer.train("bpe", [TEXT], 290)
    torch.manual_seed(0)
    model = GPT(GPTConfig(tokenizer.size, layers=2, d_model=32, d_ff=64, heads=2, context=24))
    with torch.no_grad():  # far from indifferent
        for parameter in model.parameters():
            parameter.mul_(5.0)
    return Writer(model.eval(), tokenizer)


@pytest.mark.parametrize("prompt", ["", "the", "der Fluß liegt"])
def test_greedy_writing_is_the_likeliest_token_step_by_step(prompt: str, writer: Writer) -> None:
    tokenizer, ids = writer.tokenizer, [writer.tokenizer.eos, *writer.tokenizer.encode(prompt)]
    read = len(ids)
    while len(ids) - read < 10:
        log_probabilities = writer.model(torch.tensor([ids]))[0, -1]
        log_probabilities[[tokenizer.pad, tokenizer.bos]] = -math.inf
        if int(log_probabilities.argmax()) == tokenizer.eos:
            break
        ids.append(int(log_probabilities.argmax()))
    assert writer.generate([prompt], length=10, beam=1) == [tokenizer.decode(ids[read:])]


def test_prompts_of_any_length_are_continued_as_each_would_be_alone(writer: Writer) -> None:
    prompts = ["the", "", "the sun", "the sun is over the river", "sun", "x" * 60, "the"]
    for beam in (1, 3):
        together = writer.generate(prompts, length=12, beam=beam)
        assert together == [writer.generate([prompt], length=12, beam=beam)[0] for prompt in prompts]
    assert len(set(together)) > 3


def test_a_length_is_a_limit_whatever_the_prompt_and_the_context(writer: Writer) -> None:
    for prompt in ("", "the sun is over the river"):
        for length in (1, 5, 100):  # four times the context
            (found,) = writer.search([prompt], length=length, beam=1)
            assert len(found.tokens) == length  # this model does not end by itself


def test_the_same_seed_draws_the_same_and_another_draws_another(writer: Writer) -> None:
    first, again, other = (writer.generate(["the", "der"], length=20, temperature=1.5, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert writer.generate(["the"], length=20, top_k=1) == writer.generate(["the"], length=20, beam=1)


@pytest.mark.parametrize("text", ["", "a", "the sun", TEXT, TEXT * 4])
@pytest.mark.parametrize("context", [1, 7, 24])
def test_windows_predict_every_token_exactly_once(text: str, context: int, writer: Writer) -> None:
    tokenizer = writer.tokenizer
    whole = [tokenizer.eos, *tokenizer.encode(text), tokenizer.eos]
    windows = text_windows(text, tokenizer, context)
    assert [token for ids, _ in windows for token in ids[1:]] == whole[1:]
    assert all(2 <= len(ids) <= context + 1 for ids, _ in windows)
    assert all(before[0][-1] == after[0][0] for before, after in pairwise(windows))
    assert sum(size for _, size in windows) == pytest.approx(len(text.encode()))
    predicted = writer.predict(windows)
    assert sum(count for _, count, _ in predicted) == len(whole) - 1


def test_a_window_s_likelihood_is_the_model_s(writer: Writer) -> None:
    windows = text_windows(TEXT, writer.tokenizer, 24)
    for (ids, _), (nll, count, _) in zip(windows, writer.predict(windows), strict=True):
        log_probabilities = writer.model(torch.tensor([ids[:-1]]))[0].detach()
        right = log_probabilities.gather(1, torch.tensor(ids[1:])[:, None])
        assert nll == pytest.approx(-float(right.sum()), rel=1e-4)
        assert count == len(ids) - 1


def test_bits_per_byte_and_perplexity_tell_the_same(writer: Writer) -> None:
    windows = text_windows(TEXT, writer.tokenizer, 24)
    scores = writer.scores(windows, writer.predict(windows))
    tokens, size = len(writer.tokenizer.encode(TEXT)) + 1, len(TEXT.encode())
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert scores["bits_per_byte"] * size == pytest.approx(math.log2(scores["perplexity"]) * tokens)
    assert scores["bits_per_byte"] > 0


def test_predicting_leaves_a_model_in_training_as_it_was(writer: Writer) -> None:
    writer.model.train()
    writer.predict(text_windows("the sun", writer.tokenizer, 24))
    assert writer.model.training
    writer.model.eval()


def test_samples_show_how_a_text_goes_on_and_how_the_model_would(writer: Writer) -> None:
    windows = text_windows(TEXT, writer.tokenizer, 24)
    for sample in writer.samples(windows, []):
        assert sample["input"] + sample["reference"] in TEXT
