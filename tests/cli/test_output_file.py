"""`--output`: a file that is complete or absent, continued by the same command after a real kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, Trained

# Small groups, and after two of them the process kills itself in the middle of a line.
KILLED = """
import os, signal, sys
from heedful.cli import lines, output_file
from heedful.cli.main import main

lines.LINES_OF_FILE = 8
add = output_file.OutputFile.add

def add_twice(self, *given):
    add(self, *given)
    if self.done.inputs == 16:
        self.file.write(b"half a li")
        self.file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

if sys.argv.pop(1) == "die":
    output_file.OutputFile.add = add_twice
main()
"""


def command(mode: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-c", KILLED, mode, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=240)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "many.txt"
    path.write_text("".join(f"{number % 10} {number % 7}\n" for number in range(30)) + "\n3 1\n", encoding="utf-8")
    return path


def test_a_killed_command_leaves_no_output_and_the_same_command_continues_it(
    trained: Trained, run: Run, many: Path, tmp_path: Path
) -> None:
    model, out = trained("translation"), tmp_path / "out.txt"
    expected, _ = run("translate", model, "--input", many, "--json")
    asked = "translate", model, "--input", many, "--output", out, "--json"
    killed = command("die", *asked)
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    assert (tmp_path / ".out.txt.part").read_text(encoding="utf-8").endswith("half a li")
    found = command("live", *asked)
    assert found.returncode == 0, found.stderr
    assert "continuing after 16 of 32 lines" in found.stderr
    told = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    wanted = [json.loads(line) for line in expected.splitlines()]
    assert [[one["text"] for one in row["translations"]] for row in told] == [
        [one["text"] for one in row["translations"]] for row in wanted
    ]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".out")]


def test_another_wish_starts_from_the_beginning(trained: Trained, run: Run, many: Path, tmp_path: Path) -> None:
    model, out = trained("translation"), tmp_path / "out.txt"
    command("die", "translate", model, "--input", many, "--output", out)
    _, told = run("translate", model, "--input", many, "--output", out, "--beam", "2")
    assert "continuing" not in told
    assert out.read_text(encoding="utf-8") == run("translate", model, "--input", many, "--beam", "2")[0]


def test_an_output_needs_a_file_as_input(trained: Trained, run: Run, tmp_path: Path) -> None:
    _, told = run("translate", trained("translation"), "1 2", "--output", tmp_path / "out.txt", code=2)
    assert "--output needs --input FILE" in told
    missing = tmp_path / "missing" / "out.txt"
    _, told = run("translate", trained("translation"), "--input", __file__, "--output", missing, code=1)
    assert "there is no directory" in told
    assert not (tmp_path / "out.txt").exists()
