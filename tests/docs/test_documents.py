"""What the documents show is run: Python blocks as they stand, shell commands on small files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from conftest import Command, write_pairs
from heedful.recipes import MODEL_KEYS, load_recipe, resolve

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(ROOT.glob("docs/*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_the_documents_runs(path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:  # one after the other, as a reader meets them
        exec(compile(block, str(path), "exec"), names)


def test_every_setting_is_explained() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    known = [*resolve({}).flat(), *(f"model.{key}" for key in MODEL_KEYS)]
    named = set(re.findall(r"`([a-z_0-9]+)`", text))
    missing = [key for key in known if key.split(".", 1)[1] not in named]
    assert not missing


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
