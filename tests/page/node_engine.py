"""The browser's engine in Node, for tests that compare it with PyTorch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ENGINE = Path(__file__).resolve().parents[2] / "src" / "heedful" / "page" / "engine"
CALLS = Path(__file__).with_name("engine_calls.mjs")

Call = list[Any]  # the name of a method of the model, or the body of a function of `model` and `given`; then its arguments


def ask_engines(folder: Path, asked: Sequence[tuple[bytes | None, Sequence[Call]]]) -> list[list[Any]]:
    """The answers of the engine to calls, for several model files in one process; an error as a text."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    jobs = []
    for number, (model, calls) in enumerate(asked):
        file = folder / f"model-{number}.bin"
        if model is not None:
            file.write_bytes(model)
        jobs.append({"file": None if model is None else str(file), "calls": calls})
    out = folder / "answers.json"
    given = json.dumps({"engine": str(ENGINE), "jobs": jobs, "out": str(out)})
    done = subprocess.run([node, str(CALLS)], input=given, text=True, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    answers = json.loads(out.read_text(encoding="utf-8"))
    return [[one["error"] if "error" in one else one.get("found") for one in each] for each in answers]


def ask_engine(folder: Path, calls: Sequence[Call], model: bytes | None = None) -> list[Any]:
    """The same for one model."""
    return ask_engines(folder, [(model, calls)])[0]
