"""Every shipped recipe in every format: it is written and verified, or an error says what to train with instead."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from conftest import TASKS, Trained
from heedful.errors import HeedfulError
from heedful.interop import argos, ctranslate2, gguf, huggingface, onnx
from heedful.interop.export import FORMATS, export_model
from heedful.interop.known_settings import Obstacle
from heedful.recipes import load_recipe, shipped_recipes
from heedful.recipes.recipe import smallest_config

RECIPES = [*shipped_recipes()]
NEVER = {"argos", "ctranslate2", "gguf"}  # are not for every job: nothing can be trained that they can express


def obstacles(module: Any, recipe: Any) -> list[Obstacle]:
    """What keeps the model of a recipe from being exported, before anything is trained."""
    backend = Backend(models.Unigram() if recipe.tokenizer.kind == "sentencepiece" else models.BPE())
    if recipe.tokenizer.kind == "bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = SimpleNamespace(backend=backend)
    languages = {f"{side}_language": getattr(recipe.data, f"{side}_language", "") for side in ("source", "target")}
    pipeline = SimpleNamespace(
        task=recipe.task,
        model=SimpleNamespace(config=smallest_config(recipe)),
        tokenizer=tokenizer,
        tokenizers={"tokenizer": tokenizer},
        **languages,
    )
    return list(module.problems(pipeline))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    "module", [huggingface, ctranslate2, onnx, argos, gguf], ids=lambda module: module.__name__.split(".")[-1]
)
def test_what_a_refusal_says_to_train_with_can_be_exported(name: str, module: Any) -> None:
    found = obstacles(module, load_recipe(name))
    if all(one.train_with for one in found):
        advice = [one.train_with.replace("CODE", "en") for one in found]
        assert not obstacles(module, load_recipe(name, advice))
    else:
        assert module.__name__.split(".")[-1] in NEVER


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_model_of_every_job_is_proved_in_every_format_or_refused(
    form: str, task: str, trained: Trained, tmp_path: Path
) -> None:
    try:
        *_, said = export_model(trained(task) / "best", tmp_path / "out", form)
    except HeedfulError as error:
        said = str(error)
    if "cannot express" in said:
        assert not list(tmp_path.glob("out*"))
    else:
        assert "outputs identical" in said
        assert list(tmp_path.glob("out*"))
