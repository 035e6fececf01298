"""What the documents show is run: Python blocks as they stand, shell commands on small files."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from conftest import Command, write_pairs
from heedful.jobs.registry import TRAINABLE as JOBS
from heedful.models import MODEL_KINDS, config_class
from heedful.models.presets import PRESETS
from heedful.recipes import load_recipe
from heedful.recipes.recipe import ORIGIN, SECTIONS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(ROOT.glob("docs/*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_the_documents_runs(path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:  # one after the other, as a reader meets them
        exec(compile(block, str(path), "exec"), names)


def every_setting() -> dict[str, set[str]]:
    """Section → every setting that any job or kind of model has there."""

    def names(settings: type) -> set[str]:
        return {field.name for field in dataclasses.fields(settings)}

    fixed = {key for job in JOBS.values() for key in job.fixed}
    model = set().union(*(names(config_class(kind)) for kind in MODEL_KINDS)) - fixed | set(ORIGIN)
    data = set().union(*(names(job.data) for job in JOBS.values()))
    return {"data": data, "model": model, **{section: names(settings) for section, settings in SECTIONS.items()}}


@pytest.mark.parametrize("section", ["data", "tokenizer", "model", "training", "decoding"])
def test_every_setting_is_explained_in_its_section(section: str) -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    (page,) = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.startswith(f"{section}\n")]
    assert not every_setting()[section] - set(re.findall(r"`([a-z_0-9]+)`", page))


def test_every_preset_is_named() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert not [preset for preset in PRESETS if f"`{preset}`" not in text]


@pytest.mark.parametrize("task", JOBS)
def test_every_job_is_explained_with_its_format_and_its_metrics(task: str) -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert f"`{task}`" in text
    assert all(f"`{metric}`" in text for metric in JOBS[task].metrics)


def commands() -> list[str]:
    """The `heedful` commands of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if re.search(r"(^|\| |/)heedful (train|trans|eval|info|rec)", line)]


def test_the_commands_for_ones_own_text_work_as_the_readme_shows_them(heedful: Command, tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, 400)
    for name in ("train", "test"):
        (tmp_path / f"{name}.en").write_text(source.read_text())
        (tmp_path / f"{name}.de").write_text(target.read_text())
    small = "model.d_model=16 model.d_ff=16 model.layers=1 model.heads=2 tokenizer.size=300 training.steps=4".split()
    wanted = [c for c in commands() if "runs/en-de" in c and not c.startswith("torchrun")]
    assert len(wanted) >= 6
    for command in wanted:
        pipe = command.startswith("cat ")
        words = shlex.split(command.split("|")[1] if pipe else command)
        output = words[words.index(">") + 1] if ">" in words else None
        words = words[1 : words.index(">")] if ">" in words else words[1:]
        stdin = (tmp_path / "test.en").read_text() if pipe else None
        done = heedful(*words, *(small if words[0] == "train" else []), cwd=tmp_path, input=stdin)
        assert done.returncode == 0, (command, done.stderr)
        if output:
            assert done.stdout.count("\n") == 400


def test_the_settings_on_the_readmes_command_lines_exist() -> None:
    for command in commands():
        words = shlex.split(command)
        if "train" in words:
            overrides = [word for word in words if re.match(r"[a-z]+\.[a-z_]+=", word)]
            load_recipe(words[words.index("train") + 1], overrides)
