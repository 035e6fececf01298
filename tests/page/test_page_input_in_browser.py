"""What people put into the page, and what the page around it does: sentences, long texts, images, languages, colours."""

from __future__ import annotations

import re
from pathlib import Path

from page_models import OpenModel, settled

from browser import OpenPage
from conftest import Trained
from heedful.pipelines import load_pipeline


def test_typing_gives_the_same_translation_as_python(trained: Trained, open_model: OpenModel) -> None:
    translator = load_pipeline(trained("translation"))
    page = open_model("translation")
    for text in ("3 1 4", "2 7 1 8"):
        page.locator("textarea").fill(text)
        expected = translator.run([text])[0].translations[0].text
        page.wait_for_function("text => document.querySelector('.output .written')?.textContent === text", arg=expected)
    word = page.locator(".output button.piece").first
    assert re.match(r".+: \d+\.\d %$", word.get_attribute("title") or "")
    word.click()
    others = page.locator(".popover .candidate")
    assert others.count() == 6
    letter = next(name for name in others.locator(".name").all_inner_texts()[1:] if re.fullmatch("[a-z]", name))
    others.filter(has_text=re.compile(f"^{letter}")).click()
    page.wait_for_function("letter => document.querySelector('.output .written').textContent.startsWith(letter)", arg=letter)


def test_every_sentence_and_line_is_translated_by_itself_and_one_is_looked_into(trained: Trained, open_model: OpenModel) -> None:
    translator = load_pipeline(trained("translation"))
    lines = ["3 1 4", "2 7 1 8"]
    expected = [prediction.translations[0].text for prediction in translator.run(lines)]
    page = open_model("translation", view="output", text="\n\n".join(lines))
    page.wait_for_function("text => document.querySelector('.output .written')?.textContent === text", arg="\n\n".join(expected))
    looked = "heedfulPage.then(async ({app}) => (await app.look({})).input)"
    assert page.evaluate(looked) == lines[0]
    page.get_by_label("Sentence looked into").select_option("1")
    settled(page)
    assert page.evaluate(looked) == lines[1]
    page.locator(".output button.piece").last.click()
    page.locator(".popover .candidate").nth(1).click()
    page.wait_for_function("text => document.querySelector('.output .written').textContent !== text", arg="\n\n".join(expected))
    assert page.locator(".output .written").inner_text().startswith(expected[0] + "\n\n")


def test_a_long_text_is_cut_for_looking_inside_and_another_edit_stops_it(open_model: OpenModel) -> None:
    page = open_model("translation", view="flow", text="1 2 3")
    page.locator("textarea").fill("7 " * 2000)
    page.wait_for_timeout(700)  # it is computing
    page.locator("textarea").fill("4 5")
    page.wait_for_timeout(400)
    settled(page)
    assert page.locator(".stage-qkv .names").first.inner_text().split() == ["4", "␣", "5", "⟨end⟩"]
    page.locator("textarea").fill("7 " * 400)
    page.locator(".partof").get_by_text("its first 300 tokens").wait_for()
    assert page.evaluate("heedfulPage.then(async ({app}) => (await app.look({})).sequences.source.tokens.length)") == 301


def test_back_leads_to_the_view_before(open_model: OpenModel) -> None:
    page = open_model("translation", text="3 1 4")
    page.get_by_role("button", name="Look inside").click()
    settled(page)
    page.get_by_role("button", name="Layer by layer").click()
    settled(page)
    page.go_back()
    page.wait_for_selector(".flow")
    page.go_back()
    page.wait_for_function("!document.querySelector('.explorer')")
    assert page.locator("textarea").input_value() == "3 1 4"
    page.go_forward()
    page.wait_for_selector(".flow")


def test_the_language_is_switched_and_every_text_has_both(open_model: OpenModel) -> None:
    page = open_model("translation", view="flow")
    page.get_by_role("button", name="한국어").click()
    page.wait_for_function("document.documentElement.lang === 'ko'")
    settled(page)
    assert page.locator("h1").inner_text() == "번역"
    assert re.search("[가-힣]", page.locator(".tabs").inner_text())
    missing = page.evaluate("""import('heedful/i18n/i18n.js').then(({LANGUAGES: {en, ko}}) => {
      const names = text => [...text.matchAll(/{(\\w+)}/g)].map(match => match[1]).sort().join();
      const keys = new Set([...Object.keys(en.texts), ...Object.keys(ko.texts)]);
      return [...keys].filter(key => !(key in en.texts && key in ko.texts) || names(en.texts[key]) !== names(ko.texts[key]));
    })""")
    assert missing == []
    assert page.evaluate("document.body.innerText.match(/\\b(stage|numbers|attention|plain|whatif|view|map)\\.[a-z]+/g)") is None


def test_dark_and_light_follow_the_system_or_the_button(open_model: OpenModel) -> None:
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
    page = open_model("translation", scheme="dark")
    assert page.evaluate(colour) < 60
    page.locator(".theme").click()
    page.wait_for_function(f"{colour} > 200")
    page.locator(".theme").click()
    page.wait_for_function(f"{colour} < 60")


def test_a_shared_address_shows_the_same_again(open_model: OpenModel, open_page: OpenPage) -> None:
    page = open_model("translation", view="attention", text="2 7 1", part="encoder", layer=1, head=2, mode="map")
    page.locator(".modes button").nth(1).click()
    shared = page.evaluate("heedfulPage.then(page => page.app.state.address())")
    again = settled(open_page(shared, offline=True))
    assert again.locator("textarea").input_value() == "2 7 1"
    assert again.locator(".large h3").inner_text() == page.locator(".large h3").inner_text()
    assert again.locator(".links").count() == 1


def test_right_to_left_and_cjk_tokens_keep_their_direction(open_model: OpenModel) -> None:
    page = open_model("translation")
    page.locator("textarea").fill("שלום 3")
    assert page.locator("textarea").evaluate("area => getComputedStyle(area).direction") == "rtl"
    drawn = page.evaluate("""(async () => {
      const [{links}, {heatMap}] = await Promise.all([import('heedful/draw/links.js'), import('heedful/draw/heatmap.js')]);
      const tokens = ["שלום", " عالم", "你好", "abc"].map(text => ({text, special: false}));
      const weights = {data: new Float32Array(16).fill(0.25), shape: [4, 4]}, names = tokens.map(({text}) => text);
      const lines = links({queries: tokens, keys: tokens, heads: [{weights, colour: "red"}], title: ""});
      const map = heatMap({rows: names, columns: names, title: "", select() {}});
      document.body.append(lines.view, map.view);
      map.draw(weights);
      return [[...document.querySelectorAll(".queries bdi")].map(word => word.matches(":dir(rtl)")),
        [...document.querySelectorAll(".left text")].map(label => label.lastChild.data),
        getComputedStyle(document.querySelector(".queries bdi")).unicodeBidi];
    })()""")
    isolated = [f"\u2068{word}\u2069" for word in ("שלום", "عالم", "你好", "abc")]
    assert drawn == [[True, True, False, False], isolated, "isolate"]


def test_an_image_is_dropped_and_its_patches_attend(open_model: OpenModel, tmp_path: Path) -> None:
    from PIL import Image

    page = open_model("image-classification", view="attention")
    first = page.locator(".preview").get_attribute("src")
    path = tmp_path / "mine.png"
    Image.linear_gradient("L").save(path)
    page.locator("input[type=file]").set_input_files(path)
    page.wait_for_function("source => document.querySelector('.preview').src !== source", arg=first)
    page.wait_for_function("document.querySelector('.patches img').src === document.querySelector('.preview').src")
    settled(page)
    page.locator(".patches").first.click(position={"x": 20, "y": 20})
    assert "What patch 1,1 attends to" in page.locator(".pictures").inner_text()
    page.get_by_role("button", name="Rollout").click()
    assert "Rollout" in page.locator(".large h3").inner_text()
    (tmp_path / "words.txt").write_text("no image")
    page.locator("input[type=file]").set_input_files(tmp_path / "words.txt")
    page.wait_for_function("document.querySelector('.status').textContent.includes('words.txt is not an image')")
    page.evaluate("""() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["x"], "notes.txt", {type: "text/plain"}));
      document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
    }""")
    page.wait_for_function("document.querySelector('.status').textContent.includes('notes.txt is not an image')")
