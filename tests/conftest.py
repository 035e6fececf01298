"""What tests share: one thread each, a small parallel corpus, and whole commands."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

WORDS = "zero one two three four five six seven eight nine".split()
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors are faster so, and results do not depend on the machine."""
    torch.set_num_threads(1)


def write_pairs(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Two aligned files: digits, and the same number in words, backwards."""
    chance = random.Random(seed)
    source, target = folder / "train.digits", folder / "train.words"
    rows = [[chance.randrange(10) for _ in range(chance.randint(2, 6))] for _ in range(count)]
    source.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    target.write_text("".join(" ".join(WORDS[d] for d in reversed(row)) + "\n" for row in rows), encoding="utf-8")
    return source, target


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Aligned files with 2,000 pairs."""
    return write_pairs(tmp_path_factory.mktemp("corpus"), 2000)


@pytest.fixture(scope="session")
def heedful() -> Command:
    """Run a `heedful` command in a process of its own."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # type: ignore[call-overload]
            [sys.executable, "-m", "heedful", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=240,
            **options,
        )

    return run
