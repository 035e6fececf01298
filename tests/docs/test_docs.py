"""The code in the documents is run in order, shell commands on small files, and what the documents say is checked."""

from __future__ import annotations

import dataclasses
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from sandbox import blocks_of, commands_of, run_command, write_files

from conftest import Run
from heedful.interop.huggingface import obstacles
from heedful.jobs.registry import TRAINABLE as JOBS
from heedful.models import config_class
from heedful.models.presets import PRESETS
from heedful.recipes import load_recipe, shipped_recipes
from heedful.recipes.recipe import ORIGIN, SECTIONS, smallest_config

ROOT = Path(__file__).parents[2]
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
GENERATED = {"settings.md": "settings_page", "cli.md": "cli_page"}
# Not run: several machines, what needs a running service, and examples that need models from elsewhere.
RUN = [
    path for path in TEXTS if path.name not in ("many_machines.md", "serving.md", "cli.md") and not path.name.endswith(".ko.md")
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


WITH_CODE = [path for path in RUN if blocks_of(path.read_text(encoding="utf-8"))]
SLOW = {"long_sequences.md"}  # every point of `heedful complexity` is a process of its own


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=name_of(path), marks=[pytest.mark.slow] if path.name in SLOW else []) for path in WITH_CODE],
)
def test_the_code_in_the_documents_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    if any("heedful" in content for language, content in blocks if language == "sh"):
        write_files(tmp_path)
    names: dict[str, Any] = {}
    for language, content in blocks:  # one after the other, as a reader meets them
        if language == "python":
            exec(compile(content, str(path), "exec"), names)
        else:
            for command in commands_of(content):
                run_command(command, run)


def test_the_settings_on_all_command_lines_exist() -> None:
    found = 0
    for path in TEXTS:
        for language, content in blocks_of(path.read_text(encoding="utf-8")):
            for command in commands_of(content) if language == "sh" else ():
                words = shlex.split(command)
                if "heedful" in words and "train" in words and "mine.toml" not in words:
                    overrides = [word for word in words if re.match(r"[a-z]+\.[a-z_]+=", word)]
                    load_recipe(words[words.index("train") + 1], overrides)
                    found += 1
    assert found > 20


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md", "docs/explorer.md"])
def test_the_korean_pages_have_the_same_commands_headings_and_numbers(name: str) -> None:
    english = (ROOT / name).read_text(encoding="utf-8")
    korean = (ROOT / name.replace(".md", ".ko.md")).read_text(encoding="utf-8")
    assert blocks_of(english) == blocks_of(korean)
    assert re.findall(r"^#+", english, re.MULTILINE) == re.findall(r"^#+", korean, re.MULTILINE)
    assert numbers_in_tables(english) == numbers_in_tables(korean)


def numbers_in_tables(text: str) -> list[list[str]]:
    """The numbers of every row of every table, sorted, because languages order words differently."""
    return [sorted(re.findall(r"\d[\d,.]*\d", row)) for row in re.findall(r"^\|.*\|$", text, re.MULTILINE)]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_links_lead_to_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [link for link in LINK.findall(text) if not (path.parent / link).exists()]


def test_the_readme_says_which_recipes_can_be_exported() -> None:
    said = re.search(r"\*\*decide before you train\*\*: (.*?) can be exported; (.*?) use settings", README, re.DOTALL)
    assert said
    recipes = {name: load_recipe(name) for name in shipped_recipes()}
    reasons = {name: obstacles(smallest_config(recipe), recipe.task) for name, recipe in recipes.items()}
    assert set(re.findall(r"`(.*?)`", said[1])) == {name for name, reason in reasons.items() if not reason}
    assert set(re.findall(r"`(.*?)`", said[2])) == {name for name, reason in reasons.items() if reason}


def test_the_readme_names_every_job() -> None:
    assert not [job for job in JOBS if f"`{job}`" not in README or f"heedful {JOBS[job].verbs[0]} RUN" not in README]


@pytest.mark.parametrize("page", GENERATED)
def test_the_generated_pages_are_current(page: str) -> None:
    write = runpy.run_path(str(ROOT / "docs" / "reference.py"))[GENERATED[page]]
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == write(), "run `make docs`"


def every_setting() -> dict[str, set[str]]:
    """Section → every setting that any job or kind of model has there."""

    def names(settings: type) -> set[str]:
        return {field.name for field in dataclasses.fields(settings)}

    fixed = {key for job in JOBS.values() for key in job.fixed}
    kinds = {kind for job in JOBS.values() for kind in job.kinds}
    model = set().union(*(names(config_class(kind)) for kind in kinds)) - fixed | set(ORIGIN)
    data = set().union(*(names(job.data) for job in JOBS.values()))
    return {"data": data, "model": model, **{section: names(settings) for section, settings in SECTIONS.items()}}


@pytest.mark.parametrize("section", ["data", "tokenizer", "model", "training", "decoding"])
def test_every_setting_is_explained_in_its_section(section: str) -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    (page,) = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.startswith(f"{section}\n")]
    explained = set(re.findall(r"^\| `([a-z_0-9]+)` \|.*\| [^|]+ \|$", page, re.MULTILINE))
    assert not every_setting()[section] - explained


def test_every_preset_is_named() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert not [preset for preset in PRESETS if f"`{preset}`" not in text]


@pytest.mark.parametrize("task", JOBS)
def test_every_job_is_explained_with_its_format_and_its_metrics(task: str) -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{task}` |")]
    assert all(f"`{metric}`" in row for metric in JOBS[task].metrics)


def test_the_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*(?:\.py)?)`", text)
    assert len(named) > 40
    places = (ROOT / "src" / "heedful", ROOT)
    assert not [name for name in named if not any((place / name).exists() for place in places)]


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_no_document_speaks_of_a_machine_or_of_notes_that_readers_do_not_have(path: Path) -> None:
    assert not re.search(r"\bSPEC \d|/(work|tmp|home)/", path.read_text(encoding="utf-8"))
