"""Tagging: the tag of a word is learned from its first token, and of no other."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import small_recipe
from heedful.data.batches import Position
from heedful.runtime.screen import Silence
from heedful.tasks.tagging import NO_LABEL, TaggingTask


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TaggingTask:
    folder = tmp_path_factory.mktemp("tagging")
    recipe = small_recipe("tagging", folder, "tokenizer.kind=char")
    TaggingTask.prepare(recipe, folder / "data", Silence())
    return TaggingTask(recipe, folder / "data")


def test_o_is_the_first_label_and_the_others_are_in_order(task: TaggingTask) -> None:
    assert task.manifest["labels"] == ["O", "B-DAY", "B-MONTH", "B-YEAR"]
    assert task.config.classes == 4


def test_only_the_first_token_of_a_word_has_its_label(task: TaggingTask) -> None:
    names = task.manifest["labels"]
    for _, batch in islice(task.batches(Position(), 0, 1), 5):
        assert batch is not None
        for tokens, labels, mask in zip(batch.tokens, batch.labels, batch.mask, strict=True):
            text = task.tokenizer.tokens(tokens[mask].tolist())[1:-1]  # characters of on7May1984.
            day = int(labels.tolist().index(names.index("B-DAY"))) - 1
            month = next(place for place, sign in enumerate(text) if sign.isupper())
            year = next(place for place in range(month, len(text)) if text[place].isdigit())
            expected = dict.fromkeys(range(len(tokens)), NO_LABEL)
            expected |= {1: names.index("O"), len(text): names.index("O")}
            expected |= {day + 1: names.index("B-DAY"), month + 1: names.index("B-MONTH"), year + 1: names.index("B-YEAR")}
            assert text[day].isdigit()
            assert day == 2  # behind "on"
            assert labels.tolist() == [expected[place] for place in range(len(tokens))]


def test_a_long_sentence_is_learned_whole_in_pieces(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(40)]
    tags = ["O" if number % 3 else "B-X" for number in range(40)]
    text = "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
    for name in ("train", "valid"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    recipe = small_recipe(
        "tagging", tmp_path, f"data.train={tmp_path / 'train'}", f"data.valid={tmp_path / 'valid'}",
        "tokenizer.kind=char", "data.max_length=20", "model.max_positions=20",
    )  # fmt: skip
    TaggingTask.prepare(recipe, tmp_path / "data", Silence())
    task = TaggingTask(recipe, tmp_path / "data")
    rows = [task.train.source[i].tolist() for i in range(len(task.train))]
    assert len(rows) > 5
    assert all(len(row) <= 18 for row in rows)
    assert "".join(task.tokenizer.tokens([token for row in rows for token in row])) == "".join(words)
    targets = np.concatenate([task.train.target[i] for i in range(len(task.train))])
    assert [task.manifest["labels"][target - 1] for target in targets if target] == tags


def test_the_loss_is_over_words(task: TaggingTask) -> None:
    _, batch = next(task.batches(Position(), 0, 1))
    assert batch is not None
    model = task.build_model()
    loss, _, count = task.loss(model, batch)
    logits = model(batch.tokens, batch.segments, batch.mask)
    assert isinstance(logits, torch.Tensor)
    real = batch.labels != NO_LABEL
    assert count == int(real.sum()) == 5 * len(batch.tokens)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits[real], batch.labels[real], reduction="sum"))
