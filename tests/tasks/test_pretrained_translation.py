"""Translation that starts from another model: the same scores at first, extended vocabularies, exact resume."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from conftest import Trained, write_pairs
from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.models.weights import named_weights, with_new_rows
from heedful.pipelines import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Silence
from heedful.tasks.translation import TranslationTask
from heedful.training.run import train

QUICK = [
    "training.steps=4", "training.workers=1", "training.batch_tokens=300", "training.validate_every=2", "training.warmup=1",
    "training.checkpoint_every=2", "training.validate_pairs=6", "training.learning_rate=0.01", "training.r_drop=0",
    "decoding.max_extra=10", "decoding.beam=2",
]  # fmt: skip


def recipe_from(parent: Path, folder: Path, *overrides: str) -> Recipe:
    """A recipe that continues from a parent on pairs of another "language": the words in capitals, with umlauts."""
    source, target = write_pairs(folder, 60, seed=3)
    other = folder / "train.other"
    other.write_text(target.read_text(encoding="utf-8").upper().replace("E", "Ë"), encoding="utf-8")
    return load_recipe(
        "translation", [f"data.source={source}", f"data.target={other}", f"model.pretrained={parent}", *QUICK, *overrides]
    )


class Heard(Silence):
    """Remembers what is said, and asks the run to stop before a step, as Ctrl-C does."""

    def __init__(self, step: int = -1) -> None:
        super().__init__()
        self.step, self.said = step, ""

    def say(self, text: str) -> None:
        self.said += f"{text}\n"

    def at_step(self, step: int, steps: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def child(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a model that continues from a parent with an extended vocabulary."""
    folder = tmp_path_factory.mktemp("child")
    train(recipe_from(trained("translation"), folder, "tokenizer.extend=30"), folder / "run", Silence())
    return folder


@pytest.mark.parametrize("extend", [0, 30])
def test_before_the_first_step_it_scores_what_the_parent_scores(extend: int, trained: Trained, tmp_path: Path) -> None:
    recipe = recipe_from(trained("translation"), tmp_path, f"tokenizer.extend={extend}", "training.steps=1")
    train(recipe, tmp_path / "run", Silence())
    first = next(row for row in read_metrics(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "valid")
    task = TranslationTask(recipe, tmp_path / "run" / "data")
    parent = load_pipeline(trained("translation"))
    parent.beam, parent.max_extra = 1, 10
    scores = parent.scores(task.valid[:6], parent.predict(task.valid[:6]))
    assert first["step"] == 0
    assert first["bleu"] == scores["bleu"]
    assert first["chrf"] == scores["chrf"]
    assert (first["loss"] == scores["loss"]) is not extend, "a larger vocabulary shares the probability"


def test_an_extended_model_keeps_old_ids_and_what_they_give(trained: Trained, child: Path) -> None:
    parent, recipe = load_pipeline(trained("translation")), load_recipe(str(child / "run" / "recipe.toml"))
    task = TranslationTask(recipe, child / "run" / "data")
    old, new = parent.model, task.build_model()
    size = old.config.target_vocab
    assert size < new.config.target_vocab <= size + 30
    for name, weight in named_weights(new).items():
        assert torch.equal(weight[: len(named_weights(old)[name])], named_weights(old)[name])
    source, target = torch.randint(4, size, (3, 7)), torch.randint(4, size, (3, 5))
    with torch.no_grad():
        before, after = (model.eval().project(model.states(source, target)) for model in (old, new))
    assert torch.equal(before, after[..., :size])
    parent.max_extra, texts = 10, ["1 2 3", "9 8 7 6"]
    assert task.pipeline(new).translate(texts, beam=1) == parent.translate(texts, beam=1)
    trained_on = load_pipeline(child / "run")
    assert trained_on.target_tokenizer.decode(trained_on.target_tokenizer.encode("ONË TWO")) == "ONË TWO"
    assert trained_on.target_tokenizer.unk in parent.target_tokenizer.encode("ONË TWO")


def test_rows_of_new_tokens_are_the_mean_of_their_parts() -> None:
    weight = torch.tensor([[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]])
    wider = with_new_rows(weight, 6, 3, [(0, 1), (2,), ()])
    assert torch.equal(wider, torch.cat([weight, torch.tensor([[2.0, 1.0], [9.0, 9.0]]), weight.mean(0)[None]]))
    assert torch.equal(with_new_rows(torch.tensor([1.0, 3.0]), 3, 2, [(0, 1)]), torch.tensor([1.0, 3.0, 2.0]))


def test_stopped_and_continued_it_gets_the_same_weights(child: Path) -> None:
    recipe = load_recipe(str(child / "run" / "recipe.toml"))
    for step in (0, 2):
        with pytest.raises(Stopped):
            train(recipe, child / "again", Heard(step))
    train(recipe, child / "again", Silence())
    for name in ("best", "final"):
        files = [child / run / name / "model.safetensors" for run in ("run", "again")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_vocabulary_that_does_not_fit_is_told(trained: Trained, tmp_path: Path) -> None:
    recipe = recipe_from(trained("translation"), tmp_path)
    screen = Heard()
    TranslationTask.prepare(recipe, tmp_path / "data", screen)
    assert "vocabulary: the target text has" in screen.said
    assert "unknown tokens in that of the pretrained model; tokenizer.extend=2000 adds tokens for it" in screen.said
    assert "the source text" not in screen.said


def test_what_contradicts_the_pretrained_model_is_refused(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"tokenizer\.size cannot be chosen: model\.pretrained=x brings its vocabulary; leave it"
    ):
        load_recipe("translation", ["model.pretrained=x", "tokenizer.size=500"])
    with pytest.raises(UsageError, match=r"tokenizer\.extend adds tokens to the vocabulary of a pretrained translation model"):
        load_recipe("translation", ["tokenizer.extend=500"])
    recipe = recipe_from(trained("language-model"), tmp_path)
    with pytest.raises(HeedfulError, match=r"best is a gpt model; translation needs a seq2seq model$"):
        TranslationTask.prepare(recipe, tmp_path / "data", Silence())
    recipe = recipe_from(trained("translation"), tmp_path, "model.kind=recurrent")
    with pytest.raises(HeedfulError, match=r"is a seq2seq model; .* to continue from it, give model\.kind=seq2seq"):
        TranslationTask.prepare(recipe, tmp_path / "data", Silence())
