"""BERT's pre-training: what is hidden, what follows what, and a loss of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import THINGS, small_recipe
from heedful.data.batches import Position
from heedful.data.masking import mask_tokens
from heedful.data.sentence_pairs import chunks_of, pairs_of
from heedful.errors import HeedfulError
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.tasks.pretraining import PretrainingBatch, PretrainingTask
from heedful.text import Tokenizer

WORDS = [f"{first}{last}" for first in "bcdfghjklm" for last in "aeiou"]
TOKENIZER = Tokenizer.train("wordpiece", [" ".join(WORDS)] * 3, 200, masked=True)
TEXT = TOKENIZER.encode(" ".join(WORDS * 20))  # a thousand words, each a token


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> PretrainingTask:
    folder = tmp_path_factory.mktemp("pretraining")
    recipe = small_recipe("bert-pretraining", folder)
    PretrainingTask.prepare(recipe, folder / "data", Silence())
    return PretrainingTask(recipe, folder / "data")


def test_fifteen_per_cent_are_hidden_as_the_paper_says() -> None:
    rng = np.random.default_rng(0)
    masked = changed = kept = total = 0
    first, second = TEXT[:400], TEXT[400:800]
    for _ in range(50):
        row, where, answers = mask_tokens((first, second, True), TOKENIZER, 0.15, TOKENIZER.size, rng)
        original = np.array([*first, TOKENIZER.eos, *second])
        assert np.array_equal(answers, original[where])
        assert np.array_equal(row[~where], original[~where])
        assert int(where.sum()) == 120
        assert not where[len(first)], "the separator is hidden"
        total += 120
        masked += int((row[where] == TOKENIZER.mask).sum())
        kept += int((row[where] == answers).sum())
        changed += int(((row[where] != TOKENIZER.mask) & (row[where] != answers)).sum())
    assert masked / total == pytest.approx(0.8, abs=0.02)  # of 6,000: four standard deviations
    assert kept / total == pytest.approx(0.1, abs=0.016)
    assert changed / total == pytest.approx(0.1, abs=0.016)


def test_every_token_has_the_same_probability_to_be_masked() -> None:
    rng = np.random.default_rng(0)
    hidden = [mask_tokens((TEXT[:10], TEXT[10:20], True), TOKENIZER, 0.15, TOKENIZER.size, rng)[1] for _ in range(2000)]
    counts = np.stack(hidden).sum(0)
    assert counts[10] == 0
    np.testing.assert_allclose(np.delete(counts, 10) / 2000, 3 / 20, atol=0.035)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_at_least_one_token_is_hidden(length: int) -> None:
    for share in (0.0, 0.15):
        _, where, answers = mask_tokens((TEXT[:length], [], True), TOKENIZER, share, TOKENIZER.size)
        assert where.sum() == len(answers) == 1


def test_without_a_generator_the_same_texts_are_hidden_alike_and_others_are_not() -> None:
    one, again, other = (
        mask_tokens((TEXT[at : at + 30], TEXT[:5], True), TOKENIZER, 0.15, TOKENIZER.size)[1] for at in (0, 0, 7)
    )  # fmt: skip
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_special_tokens_are_never_hidden_and_never_a_question(task: PretrainingTask) -> None:
    tokenizer = task.tokenizer
    for number, (_, batch) in zip(range(20), task.batches(Position(), 0, 1), strict=False):
        assert isinstance(batch, PretrainingBatch), number
        hidden = torch.zeros_like(batch.tokens)
        hidden[batch.where] = batch.answers
        assert not (batch.where & ~batch.mask).any()
        assert not batch.where[:, 0].any()
        for special in (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.mask):
            assert special not in batch.answers.tolist()
        original = torch.where(batch.where, hidden, batch.tokens)
        assert ((original == tokenizer.eos).sum(1) == 2).all(), "[CLS] A [SEP] B [SEP]"
        assert (batch.tokens[:, 0] == tokenizer.bos).all()
        first = (original == tokenizer.eos).long().argmax(1)
        assert torch.equal(batch.segments, (torch.arange(batch.tokens.size(1)) > first[:, None]).long())


def test_about_half_of_the_pairs_really_follow(task: PretrainingTask) -> None:
    follows = [
        (index, *task.partner(index, np.random.default_rng([epoch, index])))
        for epoch in range(60)
        for index in range(len(task.document) - 1)
        if task.document[index + 1] == task.document[index]
    ]
    assert sum(not stranger for _, _, stranger in follows) / len(follows) == pytest.approx(0.5, abs=0.03)
    for index, other, stranger in follows:
        assert stranger == (task.document[other] != task.document[index])
        assert stranger or other == index + 1


def test_the_end_of_a_document_is_followed_by_a_stranger(task: PretrainingTask) -> None:
    last = int(np.flatnonzero(task.document[1:] != task.document[:-1])[0])
    found = {task.partner(last, np.random.default_rng(seed)) for seed in range(50)}
    assert all(stranger for _, stranger in found)
    assert len(found) > 20


def test_what_is_hidden_changes_from_epoch_to_epoch(task: PretrainingTask) -> None:
    indices = np.arange(8)
    first, again, other = (task.batch(indices, epoch) for epoch in (0, 0, 1))
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.where, again.where)
    assert first.where.shape != other.where.shape or not torch.equal(first.where, other.where)


def test_the_loss_is_the_sum_of_both_means_and_adds_up_for_pairs_of_any_length(task: PretrainingTask) -> None:
    model = task.build_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    lengths = task.train.source.lengths
    indices = np.array([int(lengths.argmin()), *range(8), int(lengths.argmax())])
    assert lengths.max() - lengths.min() > 5
    whole, left, right = (task.loss(model, task.batch(part, 0)) for part in (indices, indices[::2], indices[1::2]))
    assert left[2] + right[2] == whole[2]
    torch.testing.assert_close(left[0] + right[0], whole[0])
    batch = task.batch(indices[1:2], 0)
    loss, nll, count = task.loss(model, batch)
    words, follows = model(batch.tokens, batch.segments, batch.mask)
    both = torch.nn.functional.cross_entropy(words[batch.where], batch.answers)
    both = both + torch.nn.functional.cross_entropy(follows, batch.strangers)
    torch.testing.assert_close(loss / count, both)
    torch.testing.assert_close(nll / count, torch.nn.functional.cross_entropy(words[batch.where], batch.answers))


def test_chunks_keep_every_token_and_two_of_them_fit_into_a_row() -> None:
    document = [" ".join(WORDS[:n]) for n in (3, 4, 20, 50, 1)]
    chunks = chunks_of(document, TOKENIZER, 31)
    assert [token for chunk in chunks for token in chunk] == [token for text in document for token in TOKENIZER.encode(text)]
    assert all(1 <= len(chunk) <= 14 for chunk in chunks)
    assert chunks[0] == TOKENIZER.encode(" ".join([*WORDS[:3], *WORDS[:4]])), "short sentences share a chunk"


def test_held_out_pairs_follow_or_are_of_different_documents() -> None:
    chunks = [(document, [document, part]) for document in range(6) for part in range(4)]
    pairs = pairs_of(chunks)
    for first, second, follows in pairs:
        assert follows == (first[0] == second[0])
        assert not follows or second[1] == first[1] + 1
    assert sum(follows for *_, follows in pairs) == 12
    assert len(pairs) == 24


def write_documents(path: Path, documents: int, lines: int) -> Path:
    text = "\n\n".join("\n".join(f"{thing} {n} {m}" for m in range(lines)) for n in range(documents) for thing in THINGS[:1])
    path.write_text(text + "\n", encoding="utf-8")
    return path


def test_one_document_is_not_enough(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "one.txt", 2, 4)  # one of the two is held out
    recipe = load_recipe("bert-pretraining", [f"data.train={path}", "tokenizer.size=200"])
    with pytest.raises(HeedfulError, match="one document is not enough"):
        PretrainingTask.prepare(recipe, tmp_path / "data", Silence())


def test_text_without_blank_lines_is_told_of_them(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "one.txt", 1, 40)
    recipe = load_recipe("bert-pretraining", [f"data.train={path}", "tokenizer.size=200"])
    with pytest.raises(HeedfulError, match=r"one.txt is a single document of 40 lines, because it has no blank lines; put one"):
        PretrainingTask.prepare(recipe, tmp_path / "data", Silence())


def test_held_out_text_too_short_for_a_pair_asks_for_more(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "short.txt", 5, 2)  # a single short one is held out
    recipe = load_recipe("bert-pretraining", [f"data.train={path}", "tokenizer.size=200"])
    PretrainingTask.prepare(recipe, tmp_path / "data", Silence())
    with pytest.raises(HeedfulError, match=r"the held-out text is too short for a pair of texts; give data\.valid=FILE"):
        PretrainingTask(recipe, tmp_path / "data")
