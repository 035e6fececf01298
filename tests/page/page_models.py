"""What the browser tests of the page share: one file with small models of every job inside, and a page opened on one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from browser import OpenPage
from conftest import TASKS, Once, Trained
from heedful.page.model_file import pack_model
from heedful.page.samples import samples_of_run
from heedful.page.standalone import standalone_page
from heedful.pipelines import load_pipeline
from heedful.pipelines.model_directory import find_directory
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.training.run import train
from heedful.training.weight_history import earlier_weights

if TYPE_CHECKING:
    from playwright.sync_api import Page

OpenModel = Callable[..., "Page"]
MODELS = (*TASKS, "recurrent")
VIEWS = ("flow", "attention", "writing", "output", "whatif", "compare")


@pytest.fixture(scope="session")
def recurrent(trained: Trained, once: Once) -> Path:
    """A small recurrent translator on the corpus of the other one, with its earlier weights."""
    data = load_recipe(str(trained("translation") / "recipe.toml")).data
    settings = [
        f"data.source={data.source}", f"data.target={data.target}", "tokenizer.kind=char", "model.kind=recurrent",
        "model.d_model=16", "training.steps=6", "training.history=3", "training.workers=1", "training.batch_tokens=300",
        "decoding.max_extra=5",
    ]  # fmt: skip
    return once("runs/recurrent", lambda run: train(load_recipe("translation", settings), run, Silence()))


@pytest.fixture(scope="session")
def page_file(trained: Trained, recurrent: Path, once: Once) -> Path:
    """One standalone page with a model of every job, each named like its job."""

    def write(path: Path) -> None:
        packed = []
        for name in MODELS:
            folder = find_directory(recurrent if name == "recurrent" else trained(name))
            pipeline = load_pipeline(folder)
            earlier = earlier_weights(folder, pipeline.model, 3) if name == "recurrent" else []
            packed.append(pack_model(pipeline, name, 16, samples_of_run(folder, pipeline.task), earlier))
        path.write_text(standalone_page(packed), encoding="utf-8")

    return once("models.html", write)


def address(path: Path, **values: Any) -> str:
    """The address of a page that shows something."""
    texts = {name: json.dumps(value) if isinstance(value, dict | list) else str(value) for name, value in values.items()}
    return f"{path.absolute().as_uri()}#" + "&".join(f"{name}={quote(text)}" for name, text in texts.items())


def settled(page: Page) -> Page:
    """Wait until the view that is open has been computed and drawn."""
    page.wait_for_selector(".explorer .viewstage:not(.busy) > *", timeout=60_000)
    page.wait_for_timeout(150)
    page.wait_for_selector(".explorer .viewstage:not(.busy) > *", timeout=60_000)
    return page


@pytest.fixture
def open_model(page_file: Path, open_page: OpenPage) -> OpenModel:
    """Open the page on a model, in English and without a network; with a `view`, wait until it is drawn."""

    def show(model: str, width: int = 1280, scheme: str = "light", **values: Any) -> Page:
        phone = {"has_touch": True, "is_mobile": True} if width < 500 else {}
        where = address(page_file, **{"lang": "en", "model": model, **values})
        page = open_page(where, width, offline=True, color_scheme=scheme, **phone)
        page.wait_for_selector("h1")
        return settled(page) if values.get("view") else page

    return show
