"""The report of every job in a real browser: maps are drawn, nothing overflows, and fingers and keyboards reach every cell."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import OpenPage
from conftest import TASKS, Trained
from heedful.evaluation.score_names import RunResults
from heedful.explain.report import write_report
from heedful.pipelines import load_pipeline
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.training.run import train

if TYPE_CHECKING:
    from playwright.sync_api import Page

WEIGHT = re.compile(r"^.+ attends to .+: \d+\.\d %$")
VISIBLE = """canvases => canvases.map(canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, index) => index % 4 === 3 && value > 0).length;
})"""
PHONE = {"width": 390, "has_touch": True, "is_mobile": True}


def said(page: Page) -> str:
    """What the page shows about the selected cell."""
    return page.locator("#attention .said").inner_text()


def check_heads(page: Page, layers: int, heads: int) -> None:
    """Every head of every map is drawn, small and enlarged."""
    kinds = page.locator(".kinds button")
    for number in range(max(1, kinds.count())):
        if kinds.count():
            kinds.nth(number).click()
        choices = page.locator(".layer button")
        assert choices.filter(has_text="head").count() == layers * heads
        assert choices.filter(has_text="average").count() == layers
        drawn = page.locator("#attention canvas").evaluate_all(VISIBLE)
        assert len(drawn) >= layers * heads + 1
        assert all(drawn)


def check_phone(page: Page) -> None:
    """On a phone nothing is wider than the page, and a tap on a cell shows its weight."""
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cells = page.locator(".cells")
    cells.evaluate("cells => scrollTo(0, cells.getBoundingClientRect().top - 300)")
    assert not WEIGHT.match(said(page))
    box = cells.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + 5, box["y"] + 5)
    assert WEIGHT.match(said(page))
    assert page.locator(".chosen").count() == 2  # its row and its column


def check_keyboard(page: Page) -> None:
    """Tab leads to the map, whose arrow keys go from cell to cell."""
    page.locator("body").click(position={"x": 1, "y": 1})
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "cells":
            break
    first = said(page)
    assert WEIGHT.match(first)
    frame = page.locator(".cells .frame")
    before = frame.bounding_box()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    after = frame.bounding_box()
    assert before is not None
    assert after is not None
    assert after["x"] > before["x"]
    assert after["y"] > before["y"]
    assert WEIGHT.match(said(page))


def brightness(colour: str) -> float:
    """0 to 255, of `rgb(16, 20, 24)`."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.parametrize("task", TASKS)
def test_the_report_of_every_job_is_drawn_and_can_be_read(task: str, trained: Trained, open_page: OpenPage) -> None:
    run = trained(task)
    page = open_page(run / "report.html", color_scheme="light")
    assert page.locator("h1").inner_text() == run.name
    config = load_pipeline(run).model.config
    check_heads(page, config.layers, config.heads)
    check_keyboard(page)
    page.locator(".cells").hover()
    assert WEIGHT.match(said(page))
    assert brightness(page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")) > 200
    check_phone(open_page(run / "report.html", **PHONE))


def test_the_report_and_its_drawings_are_switched_to_korean(trained: Trained, open_page: OpenPage) -> None:
    page = open_page(trained("translation") / "report.html", width=390)
    page.locator(".layer button").nth(0).click()
    page.get_by_role("button", name="한국어").click()
    assert page.locator("html").get_attribute("lang") == "ko"
    headings = page.locator("h2, h3, thead th, .kinds button").all_inner_texts()
    assert [text for text in headings if not re.search("[가-힣]", text)] == ["BLEU", "chrF"]
    assert page.locator(".layer button").nth(0).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="English").click()
    assert page.locator("h2").first.inner_text() == "Learning curves"
    assert open_page(trained("translation") / "report.html", locale="ko-KR").locator("h2").first.inner_text() == "학습 곡선"


def test_dark_mode_is_dark_and_redraws_the_maps(trained: Trained, open_page: OpenPage) -> None:
    page = open_page(trained("translation") / "report.html", color_scheme="light")
    strongest = """canvas => {
      const pixels = [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
      const alphas = pixels.filter((_, index) => index % 4 === 3), at = 4 * alphas.indexOf(Math.max(...alphas));
      return `rgb(${pixels.slice(at, at + 3)})`;
    }"""
    cells = page.locator(".cells canvas")
    light = brightness(cells.evaluate(strongest))
    page.emulate_media(color_scheme="dark")
    colours = page.locator("body").evaluate("body => [getComputedStyle(body).backgroundColor, getComputedStyle(body).color]")
    assert brightness(colours[0]) < 60
    assert brightness(colours[1]) > 200
    assert brightness(cells.evaluate(strongest)) > light + 50


def test_a_chosen_patch_lays_its_attention_over_the_picture(trained: Trained, open_page: OpenPage) -> None:
    page = open_page(trained("image-classification") / "report.html")
    source, heat = page.locator(".patches").nth(0), page.locator(".patches").nth(1)
    assert page.locator(".pictures img").evaluate_all("images => images.map(image => image.naturalWidth)") == [8, 8]
    assert "What [CLS] attends to" in page.locator(".pictures").inner_text()
    assert page.get_by_role("button", name="[CLS]").get_attribute("aria-pressed") == "true"
    box = source.bounding_box()
    assert box is not None
    source.click(position={"x": box["width"] * 0.3, "y": box["height"] * 0.9})  # of four by four patches
    assert "What patch 4,2 attends to" in page.locator(".pictures").inner_text()
    heat.focus()
    assert re.match(r"4,2 attends to 1,1: \d+\.\d %$", said(page))
    page.keyboard.press("ArrowRight")
    assert re.match(r"4,2 attends to 1,2: \d+\.\d %$", said(page))
    assert all(heat.locator("canvas").evaluate_all(VISIBLE))


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_a_recurrent_model_shows_its_cross_attention_or_says_that_it_has_none(
    attention: str, trained: Trained, open_page: OpenPage, tmp_path: Path
) -> None:
    data = load_recipe(str(trained("translation") / "recipe.toml")).data
    settings = [
        f"data.source={data.source}", f"data.target={data.target}", "tokenizer.kind=char", "model.kind=recurrent",
        "model.d_model=16", f"model.attention={attention}", "training.steps=2", "training.workers=1",
        "training.batch_tokens=300", "decoding.max_extra=5",
    ]  # fmt: skip
    train(load_recipe("translation", settings), tmp_path / "run", Silence())
    page = open_page(tmp_path / "run" / "report.html", **PHONE)
    if attention == "none":
        assert page.get_by_text("This model has no attention, so there are no maps to show.").is_visible()
        assert page.locator("#attention").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    else:
        check_heads(page, 1, 1)
        check_phone(page)


def test_long_words_right_to_left_text_and_lone_points_are_shown_well(
    trained: Trained, open_page: OpenPage, tmp_path: Path
) -> None:
    run, folder = trained("translation"), tmp_path / ("long-name-" * 20)
    folder.mkdir()
    shutil.copy(run / "recipe.toml", folder)
    (folder / "metrics.jsonl").write_text('{"kind": "train", "step": 5, "nll": 0.3}\n', encoding="utf-8")
    results: RunResults = json.loads((run / "results.json").read_text(encoding="utf-8"))
    results["samples"] = [
        {"input": "a short source", "output": "x" * 300, "reference": "a short reference"},
        {"input": "السلام عليكم.", "output": "你好。", "reference": "hello"},
    ]
    write_report(folder, results, load_pipeline(run), [("1 2 3", "")], "tokens")
    page = open_page(folder / "report.html")
    widths = page.locator(".samples th").evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().width)")
    assert max(widths) - min(widths) < 2
    directions = page.locator(".samples .text").evaluate_all("parts => parts.map(part => getComputedStyle(part).direction)")
    assert directions == ["ltr", "ltr", "ltr", "rtl", "ltr", "ltr"]
    assert page.locator(".curves circle").count() == 1
    check_phone(open_page(folder / "report.html", **PHONE))


def test_lines_lead_from_a_word_to_what_it_attends_to(trained: Trained, open_page: OpenPage) -> None:
    page = open_page(trained("translation") / "report.html")
    page.get_by_role("button", name="Lines").click()
    assert page.locator(".links .rest path").count() > 0
    page.locator(".links .queries .word").nth(1).hover()
    drawn = page.locator(".links .active path").evaluate_all(
        "paths => paths.flatMap(path => path.getAttribute('d').match(/M/g).map(() => parseFloat(path.style.strokeWidth)))"
    )
    shares = [int(share) for share in page.locator(".links .keys .shares").all_inner_texts() if share]
    assert len(drawn) == len(shares) > 1
    assert max(shares) - min(shares) < 7 or max(drawn) > min(drawn)  # thicker for more
    assert 90 <= sum(shares) <= 110
    assert re.match(r"^.+ attends most to .+ \d+\.\d %", said(page))
    page.locator(".links .queries .word").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.index") == "1"


MODULES = {
    "dom": "percent labelOf shortLabel", "draw/paint": "strength", "draw/grid": "cellAt cellAfter", "draw/picture": "overPatches",
    "matrix": "matrixOf at part meanOfHeads rollout",
}  # fmt: skip


def test_the_functions_of_the_drawing_do_what_they_say(trained: Trained, open_page: OpenPage) -> None:
    page = open_page(trained("translation") / "report.html")
    for module, names in MODULES.items():
        for name in names.split():
            page.evaluate(f"import('heedful/{module}.js').then(module => {{ globalThis.{name} = module.{name} }})")
    assert page.evaluate("[percent(0.253), percent(0), percent(1)]") == ["25.3 %", "0.0 %", "100.0 %"]
    labels = page.evaluate("['a b', ' the', ' ', '\\n\\n', '', '\\u200f'].map(labelOf)")
    assert labels == ["a b", "the", "␣", "↵↵", "∅", "U+200F"]
    assert page.evaluate("['abcdef', '한국어', 'abcd'].map(text => shortLabel(text, 4))") == ["abcd…", "한국…", "abcd"]
    assert page.evaluate("[-5, 0, 0.25, 1, 2].map(strength)") == [0, 0, 0.5, 1, 1]
    assert page.evaluate("cellAt({left: 10, top: 20, width: 100, height: 50}, 5, 10, 25, 69)") == {"row": 4, "column": 1}
    assert page.evaluate("cellAt({left: 10, top: 20, width: 100, height: 50}, 5, 10, 999, 0)") == {"row": 0, "column": 9}
    assert page.evaluate("cellAfter('ArrowUp', {row: 0, column: 3}, 5, 5)") == {"row": 0, "column": 3}
    assert page.evaluate("cellAfter('End', {row: 2, column: 3}, 5, 9)") == {"row": 2, "column": 8}
    assert page.evaluate("cellAfter('Tab', {row: 2, column: 3}, 5, 9)") is None
    assert page.evaluate("[...overPatches(new Float32Array([7, 1, 2, 3, 4]), {rows: 2, columns: 2}).data]") == [1, 2, 3, 4]
    assert page.evaluate("at(matrixOf([[[1, 2], [3, 4]]]), 0, 1, 0)") == 3
    assert page.evaluate("at(matrixOf({data: [0, 250], shape: [1, 2], scale: 1000}), 0, 1)") == 0.25
    assert page.evaluate("[...part(matrixOf([[1, 2], [3, 4]]), 1).data]") == [3, 4]
    assert page.evaluate("[...meanOfHeads(matrixOf([[[1, 0]], [[0, 1]]])).data]") == [0.5, 0.5]
    # Two layers, worked out by hand: (A + I) / 2 of the second layer times that of the first.
    rolled = page.evaluate("[...rollout([matrixOf([[[1, 0], [1, 0]]]), matrixOf([[[0, 1], [0, 1]]])]).data]")
    assert rolled == [0.75, 0.25, 0.5, 0.5]
