"""Language modelling: one stream of text, whose windows miss nothing and repeat nothing."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import sentences, small_recipe
from heedful.data.batches import Position
from heedful.errors import HeedfulError
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.screen import Silence
from heedful.tasks.language_model import LanguageModelTask, TextBatch


def made(recipe: Recipe, folder: Path) -> LanguageModelTask:
    LanguageModelTask.prepare(recipe, folder, Silence())
    return LanguageModelTask(recipe, folder)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> LanguageModelTask:
    folder = tmp_path_factory.mktemp("text")
    return made(small_recipe("language-model", folder), folder / "data")


def epoch_of(task: LanguageModelTask, epoch: int) -> list[TextBatch]:
    items = takewhile(lambda item: item[0].epoch == epoch, task.batches(Position(epoch), 0, 1))
    return [batch for _, batch in items if batch is not None]


def test_targets_are_the_next_tokens(task: LanguageModelTask) -> None:
    stream = task.stream.astype(np.int64)
    places = {tuple(stream[at : at + 17]) for at in range(len(stream) - 16)}
    for batch in epoch_of(task, 0):
        assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
        assert bool(batch.mask.all())
        for row, following in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            assert (*row, following[-1]) in places


def test_every_window_comes_once_an_epoch_and_begins_elsewhere_in_the_next(tmp_path: Path) -> None:
    """With a text of different characters, a window is known by its first token."""
    text = "".join(chr(0x4E00 + number) for number in range(500))
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    (tmp_path / "valid.txt").write_text(text[:50], encoding="utf-8")
    files = [f"data.train={tmp_path / 'text.txt'}", f"data.valid={tmp_path / 'valid.txt'}"]
    settings = ["tokenizer.kind=char", "tokenizer.size=600", "model.context=16", "training.batch_tokens=100"]
    task = made(load_recipe("language-model", [*files, *settings]), tmp_path / "data")
    stream = task.stream.tolist()
    assert len(stream) == 500 + 3  # an end before, the line's end, and an end after
    begins = []
    for epoch in range(4):
        windows = [row for batch in epoch_of(task, epoch) for row in batch.targets.tolist()]
        learned = [token for row in sorted(windows, key=lambda row: stream.index(row[0])) for token in row]
        begin = stream.index(learned[0])
        assert learned == stream[begin : begin + len(learned)], "something was left out or came twice"
        assert begin <= 16
        assert len(stream) - begin - len(learned) < 16
        begins.append(begin)
    assert len(set(begins)) > 1


def test_the_end_of_the_text_is_held_out(task: LanguageModelTask) -> None:
    text = "\n".join(sentences(360)) + "\n"
    ids = [token for window, _ in task.valid for token in window[1:]]
    held = task.tokenizer.decode(ids)
    assert text.endswith(held)
    assert len(held) == pytest.approx(0.1 * len(text), abs=1)
    assert task.tokenizer.decode(task.stream.tolist()) == text[: -len(held)]


def test_documents_stand_between_end_tokens_and_files_are_read_in_order(tmp_path: Path) -> None:
    for name in ("a", "b", "valid"):
        (tmp_path / name).write_text(f"{name} " * 20, encoding="utf-8")
    files = f"data.train={tmp_path / 'a'}, {tmp_path / 'b'}", f"data.valid={tmp_path / 'valid'}"
    task = made(load_recipe("language-model", [*files, "tokenizer.kind=byte", "model.context=8"]), tmp_path / "data")
    eos = task.tokenizer.eos
    first, second = task.tokenizer.encode("a " * 20 + "\n"), task.tokenizer.encode("b " * 20 + "\n")
    assert task.stream.tolist() == [eos, *first, eos, *second, eos]
    assert task.tokenizer.decode([token for ids, _ in task.valid for token in ids[1:]]) == "valid " * 20 + "\n"


def test_a_text_shorter_than_the_context_is_one_window(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("abc", encoding="utf-8")
    files = [f"data.train={tmp_path / 'short'}", f"data.valid={tmp_path / 'short'}"]
    task = made(load_recipe("language-model", [*files, "tokenizer.kind=byte", "model.context=64"]), tmp_path / "data")
    (batch,) = epoch_of(task, 0)
    assert batch.tokens.tolist() == [task.stream.tolist()[:-1]]
    (batch,) = epoch_of(task, 5)
    assert batch.targets.tolist() == [task.stream.tolist()[1:]]


def test_too_little_text_to_hold_some_out_says_so(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("abc", encoding="utf-8")
    recipe = load_recipe("language-model", [f"data.train={tmp_path / 'short'}", "tokenizer.kind=byte"])
    with pytest.raises(HeedfulError, match=r"too little text .* give data\.valid=FILE"):
        LanguageModelTask.prepare(recipe, tmp_path / "data", Silence())


def test_no_text_at_all_asks_for_it(tmp_path: Path) -> None:
    recipe = load_recipe("language-model", ["data.generate="])
    with pytest.raises(HeedfulError, match=r"no training text: give data\.train=FILE"):
        LanguageModelTask.prepare(recipe, tmp_path / "data", Silence())


def test_the_loss_is_the_sum_over_all_next_tokens(task: LanguageModelTask) -> None:
    model, batch = task.build_model(), epoch_of(task, 0)[0]
    loss, nll, count = task.loss(model, batch)
    log_probabilities = model(batch.tokens).gather(2, batch.targets[:, :, None])
    torch.testing.assert_close(nll, -log_probabilities.sum())
    torch.testing.assert_close(loss, nll)
    assert count == batch.targets.numel()
