"""The documentation as a site: it builds without a warning, and its pages ask no other machine for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\bhref=["']?(?:https?:)?//[^>]*stylesheet"""
)


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="MkDocs is missing; pip install 'heedful[docs]'")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing; pip install 'heedful[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    assert not [str(page) for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))]
    assert "MultiHeadAttention" in (tmp_path / "site/api/nn.html").read_text(encoding="utf-8")
    assert (tmp_path / "site/benchmarks/results/dates.json").is_file()
