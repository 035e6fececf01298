"""The package as people install it: a wheel in an environment of its own has everything that it needs from this project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import heedful
from heedful.recipes import shipped_recipes

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because setuptools leaves files behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in NEEDED:
        shutil.copy(ROOT / name, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    subprocess.run([*build, str(copy)], check=True, timeout=300)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_recipes_pages_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    other = {".toml", ".html", ".css", ".js", ".typed"}
    wanted = {str(path.relative_to(source)) for path in (source / "heedful").rglob("*") if path.suffix in {*other, ".py"}}
    assert not wanted - names
    assert {Path(name).suffix for name in wanted} == {*other, ".py"}
    assert [name for name in names if name.endswith("dist-info/licenses/LICENSE")]
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]


def test_the_installed_command_works_without_the_source(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, symlinks=True)
    installed = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    # What heedful needs is already here, and is not installed a second time. Only a path: .pth files of ours stay unread.
    (installed / "these.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(program), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run(install, check=True, timeout=300, env=clean)

    def run(*arguments: str) -> str:
        command = [str(place / "bin" / "heedful"), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=clean, check=True, capture_output=True, text=True, timeout=120).stdout

    assert run("--version") == f"heedful {heedful.__version__}\n"
    listed = run("recipes")
    assert not [recipe for recipe in shipped_recipes() if f"\n  {recipe} " not in listed]
    where = subprocess.run(
        [str(program), "-c", "import heedful; print(heedful.__file__)"], env=clean, capture_output=True, text=True
    )
    assert where.stdout.startswith(str(installed))
