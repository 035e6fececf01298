"""The page of an explanation in a real browser: every job's attention is drawn, candidates and lens are there, nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_explain import explain_and_run

from browser import OpenPage
from conftest import TASKS, Trained
from heedful.explain.compare import compare
from heedful.pipelines import load_pipeline

DRAWN = """canvases => canvases.every(canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 === 3 && value > 0);
})"""


@pytest.mark.parametrize("task", TASKS)
def test_the_page_of_every_job_is_drawn(task: str, trained: Trained, open_page: OpenPage, tmp_path: Path) -> None:
    _, found, _ = explain_and_run(load_pipeline(trained(task)), task, tmp_path)
    path = tmp_path / "page.html"
    path.write_text(found.to_html(), encoding="utf-8")
    page = open_page(path)
    page.locator("#attention canvas").first.wait_for()
    assert page.locator("#attention canvas").count() > 2
    assert page.locator("#attention canvas").evaluate_all(DRAWN)
    assert page.locator("h1").inner_text() == found.model
    assert page.get_by_text("What each layer would already say").is_visible()
    phone = open_page(path, width=390)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_comparison_is_readable_on_a_phone(trained: Trained, open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "runs.html"
    path.write_text(compare(trained("translation"), trained("classification")).to_html(), encoding="utf-8")
    page = open_page(path, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg polyline").count() > 4
    colours = page.locator("svg g").evaluate_all(
        "groups => groups.map(group => getComputedStyle(group.firstElementChild).stroke)"
    )
    assert len(set(colours)) == 2
