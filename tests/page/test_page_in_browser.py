"""The page in a real browser, opened from disk without a network: what people type, see, choose and change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from page_models import MODELS, VIEWS, OpenModel, settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUICK = ("translation", "language-model", "bert-pretraining", "image-classification")
PAINTED = """canvases => canvases.map(canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 === 3 && value > 0);
})"""
PIXELS = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data].join()"


def result(page: Page) -> str:
    """What stands in the result of the first view, once it is there."""
    page.wait_for_selector(".output .answer")
    return page.locator(".output").inner_text()


def check_view(page: Page, view: str) -> None:
    """Something is drawn, nothing is wrong, and nothing is wider than the window."""
    page.locator(".tabs button").nth(0).wait_for()
    settled(page)
    assert page.locator(".problem:visible").all_inner_texts() == []
    drawn = page.locator(".viewstage canvas:visible").evaluate_all(PAINTED)
    assert drawn or page.locator(".viewstage .candidate").count(), view
    assert all(drawn), view
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth"), view


@pytest.mark.parametrize(
    ("model", "width", "scheme"),
    [(model, 1280, "light") if model in QUICK else pytest.param(model, 1280, "light", marks=pytest.mark.slow) for model in MODELS]
    + [pytest.param(model, 390, "dark", marks=() if model == "translation" else pytest.mark.slow) for model in MODELS],
)
def test_every_view_of_every_model_is_drawn(model: str, width: int, scheme: str, open_model: OpenModel) -> None:
    page = open_model(model, width, scheme, view="flow")
    assert result(page)
    names = page.locator(".tabs button").count()
    assert names >= 4
    for number in range(names):
        page.locator(".tabs button").nth(number).click()
        check_view(page, page.locator(".tabs button").nth(number).inner_text())
    page.locator(".tabs button").first.click()
    settled(page)
    for number in range(page.locator(".block").count()):
        page.locator(".block").nth(number).click()
        check_view(page, f"place {number} of the flow")


def test_the_flow_of_a_recurrent_model_says_what_it_computes(open_model: OpenModel) -> None:
    page = open_model("recurrent", view="flow", text="3 1 4", stack="decoder", layer=2)
    assert page.locator(".maprow.decoder .block").all_inner_texts() == ["Embedding", "States", "Attention", "Output"]
    scores = page.locator(".stage-scoresState")
    assert scores.locator(".formula").inner_text() == "softmax(v·tanh(q + k))"
    scores.locator(".cells").nth(0).click(position={"x": 3, "y": 3})
    score = float(scores.locator(".sum b").first.inner_text().replace("−", "-"))
    traced = page.evaluate("""heedfulPage.then(async page => {
      const {attention: {products, q, k, scoring: {v}}} = (await page.app.look({target: undefined})).trace.decoder;
      return [products.data[0], v.reduce((sum, one, i) => sum + one * Math.tanh(q.data[i] + k.data[i]), 0)];
    })""")
    assert traced[0] == pytest.approx(traced[1], abs=1e-4)
    assert score == pytest.approx(traced[0], abs=0.01)


def test_lines_lead_to_the_words_and_another_head_draws_others(open_model: OpenModel) -> None:
    page = open_model("translation", view="attention", text="3 1 4", part="encoder", layer=1, head=1, mode="lines")
    page.locator(".links .queries .word").nth(0).hover()
    paths = "paths => paths.map(path => path.style.strokeWidth + path.getAttribute('d')).join()"
    first = page.locator(".links .active path").evaluate_all(paths)
    assert first.count("M") >= 2
    page.locator(".layer button").nth(1).click()
    page.locator(".links .queries .word").nth(0).hover()
    assert page.locator(".links .active path").evaluate_all(paths) != first
    assert "head=2" in page.evaluate("heedfulPage.then(page => page.app.state.address())")


def test_a_cell_of_the_scores_opens_into_the_product_it_is(open_model: OpenModel) -> None:
    page = open_model("translation", view="flow", text="3 1 4", stack="encoder", layer=1, head=1)
    scores = page.locator(".stage-scores")
    scores.locator(".cells").nth(0).click(position={"x": 3, "y": 3})
    assert scores.locator(".frame:visible").count() == 4  # marked in all four matrices
    numbers = [float(text.strip("÷=→ %").replace("−", "-")) for text in scores.locator(".sum b").all_inner_texts()]
    product, divisor, score, weight = numbers[0], numbers[1], numbers[2], numbers[-1]
    assert product / divisor == pytest.approx(score, abs=0.02 + 0.02 * abs(score))
    shown = scores.locator(".read").first.inner_text()
    assert f"{weight:.1f} %" in shown
    traced = page.evaluate("""heedfulPage.then(async page => {
      const {self} = (await page.app.look({target: undefined})).trace.encoder.layers[0];
      const product = self.q.data.slice(0, self.q.shape[2]).reduce((sum, q, i) => sum + q * self.k.data[i], 0);
      return [self.products.data[0], product, self.weights.data[0]];
    })""")
    assert product == pytest.approx(traced[0], rel=0.02, abs=0.002)
    assert traced[0] == pytest.approx(traced[1], rel=1e-3, abs=1e-4)
    assert weight == pytest.approx(100 * traced[2], abs=0.06)


def test_every_drawing_of_numbers_says_what_its_colours_mean(open_model: OpenModel) -> None:
    page = open_model("translation", view="flow", text="3 1 4", stack="encoder", layer=1, head=1)
    assert page.locator(".numbers").count() == page.locator(".numbers .scale").count() > 3
    assert page.locator(".scale canvas").evaluate_all(PAINTED)
    ends = [text.replace("−", "-").split() for text in page.locator(".stage-scores .scale").all_inner_texts()]
    assert ends[-1] == ["0", "%", "100", "%"]
    product, scaled = float(ends[0][-1]), float(ends[1][-1])
    divisor = page.evaluate(
        "heedfulPage.then(async ({app}) => (await app.look({target: undefined})).trace.encoder.layers[0].self.divisor)"
    )
    assert product == pytest.approx(scaled * divisor, rel=0.02)  # the pattern is the same, and its numbers are smaller


def test_what_is_said_of_a_whole_input_or_word_is_shown_as_such(open_model: OpenModel) -> None:
    page = open_model("classification", view="output")
    assert page.locator(".lenstable thead th").all_inner_texts()[1:3] == ["1.", "2."]
    assert re.search(r"\d+\.\d %", page.locator(".lens").first.inner_text())
    page = open_model("tagging", view="output", text="on 7 January 1984 .")
    assert page.locator(".chips .chip").all_inner_texts() == ["on", "7", "January", "1984", "."]


def test_on_a_phone_a_change_is_told_where_it_is_made(open_model: OpenModel) -> None:
    page = open_model("translation", 390, view="whatif", text="3 1 4")
    assert not page.locator(".brief").is_visible()
    tab = page.locator(".tabs [aria-pressed=true]").bounding_box()
    assert tab is not None
    assert 0 <= tab["x"] <= 390 - tab["width"]  # the tab that is open is in sight
    page.get_by_label("Positions off").check()
    page.locator(".brief").get_by_text(re.compile("The output (has changed|is the same)")).wait_for()
    box = page.locator(".brief").bounding_box()
    assert box is not None
    assert 0 < box["y"] < page.evaluate("innerHeight")
    page.locator(".brief").click()
    page.wait_for_function("document.querySelector('.results').getBoundingClientRect().top < 60")


def test_the_decoder_is_stepped_and_a_choice_overridden(open_model: OpenModel) -> None:
    page = open_model("translation", view="writing", text="3 1 4")
    chips, candidates = page.locator(".soFar .chip:not(.special)"), page.locator(".writing .candidate")
    best = candidates.nth(0).locator(".name").inner_text()
    page.get_by_role("button", name="Next token").click()
    page.wait_for_function("document.querySelectorAll('.soFar .chip').length === 1")
    assert chips.nth(0).inner_text() == best
    other = candidates.nth(1).locator(".name").inner_text()
    candidates.nth(1).click()
    page.wait_for_function("document.querySelectorAll('.soFar .chip').length === 2")
    assert chips.nth(1).inner_text() == other
    page.get_by_role("button", name="Take back").click()
    page.wait_for_function("document.querySelectorAll('.soFar .chip').length === 1")
    before = candidates.nth(0).locator(".number").inner_text()
    page.get_by_label("Temperature").fill("3")
    assert float(candidates.nth(0).locator(".number").inner_text().split()[0]) < float(before.split()[0])
    page.get_by_label("Top-k").fill("2")
    assert page.locator(".writing .candidate.out").count() == candidates.count() - 2
    page.get_by_role("button", name="Write to the end").click()
    page.wait_for_selector(".soFar .chip.special")


def test_the_branches_of_a_beam_grow_and_die(open_model: OpenModel) -> None:
    page = open_model("translation", view="writing", text="3 1 4")
    page.wait_for_selector(".beam .node")
    whole = page.locator(".beam .node").count()
    assert page.locator(".beam .node.dropped").count()
    ends = page.locator(".beam .node.best")
    assert ends.count() >= 1
    steps = page.locator(".beamcard .slider input").nth(1)
    steps.fill("1")
    assert 0 < page.locator(".beam .node").count() < whole
    steps.fill(steps.get_attribute("max") or "")
    page.locator(".beam .node").first.hover()
    assert "log-probability" in page.locator(".beamcard .read").inner_text()
    page.locator(".beamcard .slider input").nth(0).fill("2")
    page.wait_for_function("count => document.querySelectorAll('.beam .node').length !== count", arg=whole)


CHANGES: dict[str, dict[str, Any]] = {
    "head": {"heads": [{"attention": "encoder", "layer": 1, "head": 1}]},
    "layer": {"layers": [{"stack": "encoder", "layer": 1}]},
    "divisor": {"divisor": 0.5},
    "positions": {"positions": False},
    "residual": {"residual": False},
    "mask": {"causal": False},
    "word": {"replace": [{"sequence": "source", "position": 0, "id": 9, "text": "9"}]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_intervention_is_shown_beside_what_was_before(name: str, open_model: OpenModel) -> None:
    values = {"part": "decoder" if name == "mask" else "cross", "target": "four one three" if name == "mask" else ""}
    page = open_model("translation", view="whatif", text="3 1 4", change=CHANGES[name], layer=1, head=0, **values)
    page.wait_for_selector(".results .pane.after:not(.empty)")
    before, after = (page.locator(".maps figure canvas").nth(number).evaluate(PIXELS) for number in (0, 1))
    assert before != after
    if name != "mask":
        assert page.locator(".verdict").inner_text() in ("The output has changed.", "The output is the same.")
    if name == "mask":
        assert page.locator(".given tbody tr").count() > 5
        assert re.search(r"\d+\.\d % before and \d+\.\d % after", page.locator(".results").inner_text())
    page.get_by_role("button", name="Undo all").click()
    page.wait_for_selector(".results .pane.after.empty")


def test_controls_switch_heads_shuffle_words_and_swap_one(open_model: OpenModel) -> None:
    page = open_model("translation", view="whatif", text="3 1 4")
    head = page.locator(".headswitch").first
    head.click()
    assert page.locator(".headswitch").first.get_attribute("aria-pressed") == "false"
    page.wait_for_selector(".results .pane.after:not(.empty)")
    page.locator(".headswitch").first.click()
    page.get_by_label("Positions off").check()
    page.get_by_role("button", name="Shuffle").click()
    page.wait_for_function("document.querySelector('.verdict')?.textContent.includes('shuffling')")
    assert "by < 0.01 % at most" in page.locator(".verdict").inner_text()
    page.get_by_role("button", name="Undo all").click()
    page.locator(".group-swap button.chip").first.click()
    page.get_by_label("Find a token").fill("7")
    page.locator(".popover .candidate").first.click()
    page.wait_for_selector(".chip.swapped")
    assert page.locator(".chip.swapped").inner_text() == "7"


def test_the_tour_asks_nine_questions_on_every_kind_of_model(open_model: OpenModel) -> None:
    for model in ("translation", "image-classification"):
        page = open_model(model, view="flow")
        page.get_by_role("button", name="Guided tour").click()
        questions = []
        for number in range(1, 10):
            page.locator(".tour .count").get_by_text(f"{number} / 9", exact=True).wait_for()
            settled(page)
            questions.append(page.locator(".tour h2").inner_text())
            assert len(page.locator(".tour").inner_text()) > 150
            page.wait_for_function("Math.abs(document.querySelector('.tour').getBoundingClientRect().top) < 60")
            assert not page.locator(".tourbar").is_visible()
            assert page.locator(".problem:visible").all_inner_texts() == []
            if number < 9:
                page.locator(".tour").get_by_role("button", name="Next question").click()
        assert len(set(questions)) == 9
        assert page.locator(".family figure").count() == 5
        assert page.locator(".family .own").count() == 1
        page.get_by_role("button", name="Show it").click()
        page.locator(".viewstage").evaluate("view => scrollTo(0, document.body.scrollHeight)")
        page.locator(".tourbar").get_by_text(questions[-1]).click()  # leads back to the question
        page.wait_for_function("Math.abs(document.querySelector('.tour').getBoundingClientRect().top) < 60")
        page.locator(".tour").get_by_role("button", name="Finish").click()
        page.wait_for_function("!document.querySelector('.tour')")


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_a_drawing_is_saved_as_a_file(kind: str, open_model: OpenModel, tmp_path: Path) -> None:
    page = open_model("translation", view="attention", text="3 1 4", part="encoder", mode="map")
    with page.expect_download() as saved:
        page.get_by_role("button", name=f"Save as {kind}").click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    if kind == "PNG":
        from PIL import Image

        with Image.open(path) as image:
            assert image.width > 400
            assert len(image.convert("RGB").getcolors(100_000) or []) > 20
    else:
        import xml.etree.ElementTree as Xml

        texts = [element.text or "" for element in Xml.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        assert {"3", "1", "4"} <= {text.strip("\u2068\u2069") for text in texts}
        assert "data:image/png" in path.read_text(encoding="utf-8")


def test_models_stand_side_by_side_and_checkpoints_are_scrubbed(open_model: OpenModel) -> None:
    page = open_model("recurrent", view="compare", text="3 1 4")
    page.wait_for_selector(".columns section >> nth=1")
    assert page.locator(".columns h3 bdi").all_inner_texts() == ["recurrent", "translation"]
    map_of = page.locator(".columns section").first.locator(".cells canvas")
    trained = map_of.evaluate(PIXELS)
    page.locator(".training input").fill("0")
    page.wait_for_function("document.querySelector('.training output').textContent.startsWith('step')")
    settled(page)
    page.wait_for_timeout(300)
    assert map_of.evaluate(PIXELS) != trained


def test_the_keyboard_reaches_everything(open_model: OpenModel) -> None:
    page = open_model("translation", view="attention", text="3 1 4", mode="map")
    page.locator("body").click(position={"x": 1, "y": 1})
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className.toString().split(' ')[0] || document.activeElement.tagName"))
    assert {"TEXTAREA", "sample", "main", "quiet", "cells"} <= reached


@pytest.mark.parametrize("view", ["", "flow", *(pytest.param(view, marks=pytest.mark.slow) for view in VIEWS[1:])])
def test_axe_finds_nothing_serious(view: str, open_model: OpenModel) -> None:
    axe = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("axe-core is missing; npm install")
    page = open_model("recurrent" if view == "compare" else "translation", text="3 1 4", **({"view": view} if view else {}))
    result(page)
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)")
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, json.dumps([[one["id"], [node["html"][:160] for node in one["nodes"][:3]]] for one in serious], indent=1)
