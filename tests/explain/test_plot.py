"""Every picture is drawn and can be written; without matplotlib an error says how to install it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_heads import explanation

from conftest import Trained, write_images
from heedful.errors import HeedfulError, UsageError
from heedful.explain import explain
from heedful.explain.compare import compare
from heedful.explain.explanation import Token
from heedful.explain.figures import label_of, save_figure
from heedful.explain.heads import summarize_heads
from heedful.explain.output_file import check_output
from heedful.explain.positions import Positions
from heedful.explain.word_attention import word_attention
from heedful.pipelines import load_pipeline

pytest.importorskip("matplotlib")


def pixels(path: Path) -> Any:
    from PIL import Image

    return np.asarray(Image.open(path).convert("L"))


def check_drawn(figure: Any, path: Path) -> None:
    """There is something in the picture, and it is not cut off: its border is empty."""
    save_figure(figure, path)
    found = pixels(path)
    assert found.std() > 5
    for edge in (found[0], found[-1], found[:, 0], found[:, -1]):
        assert (edge > 200).mean() > 0.95


@pytest.mark.parametrize("what", ["attention", "scores", "norms", "lens", "candidates", "beam"])
def test_everything_in_an_explanation_can_be_drawn(what: str, trained: Trained, tmp_path: Path) -> None:
    pipeline = load_pipeline(trained("translation"))
    pipeline.max_extra = 1
    check_drawn(explain(pipeline, "1 2", beam=3).plot(what), tmp_path / "picture.png")


def test_the_attention_that_is_drawn_can_be_chosen(trained: Trained, tmp_path: Path) -> None:
    found = explain(load_pipeline(trained("translation")), "1 2 3")
    figure = found.plot(part="encoder", layer=1, head=2)
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.images[0].get_array(), found.attention_of("encoder").layers[0].weights[1])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "␣", "2", "␣", "3", "⟨end⟩"]
    assert len(found.plot(layer="all").axes) == 2  # of one layer with two heads
    for options, message in (
        ({"layer": 2}, "layers 1 to 1, not 2"),
        ({"layer": "x"}, "a number or 'all', not 'x'"),
        ({"head": 3}, "heads 1 to 2, not 3"),
        ({"part": "encodr"}, "did you mean 'encoder'"),
    ):
        with pytest.raises(UsageError, match=message):
            found.plot(**options)
    with pytest.raises(UsageError, match="no picture of 'attentio'; did you mean 'attention'"):
        found.plot("attentio")
    with pytest.raises(UsageError, match="head is for pictures of the attention, not of the lens"):
        found.plot("lens", head=1)
    with pytest.raises(UsageError, match="there is no beam"):
        explain(load_pipeline(trained("translation")), "1 2 3", beam=1).plot("beam")


def test_summaries_words_and_comparisons_are_drawn(trained: Trained, tmp_path: Path) -> None:
    pipeline = load_pipeline(trained("classification"))
    found = explain(pipeline, "the sun is over 7 rivers .")
    check_drawn(summarize_heads([found]).plot(), tmp_path / "heads.png")
    check_drawn(word_attention(found, "sun").plot(), tmp_path / "word.png")
    check_drawn(compare(trained("classification"), trained("translation")).plot(), tmp_path / "runs.png")


def test_the_patches_that_cls_attends_to_are_laid_over_the_image(trained: Trained, tmp_path: Path) -> None:
    found = explain(load_pipeline(trained("image-classification")), next(write_images(tmp_path / "images", 1).rglob("*.png")))
    figure = found.plot("patches", head=2)
    picture, heat = (np.asarray(image.get_array()) for image in figure.axes[0].images)
    assert picture.shape[:2] == (8, 8)
    np.testing.assert_array_equal(heat.flatten(), found.attention_of("encoder").layers[0].weights[1, 0, 1:])
    check_drawn(figure, tmp_path / "patches.png")
    with pytest.raises(UsageError, match="only images have patches"):
        explanation(np.eye(1), tokens=[Token(0, "a")]).plot("patches")


def test_every_kind_of_positions_is_drawn(tmp_path: Path) -> None:
    check_drawn(Positions.of_kind("all", d_model=16, heads=2, length=12).plot(), tmp_path / "positions.png")


def test_an_svg_holds_its_tokens_as_text_and_is_the_same_every_time(tmp_path: Path) -> None:
    tokens = [Token(number, text) for number, text in enumerate(["$x^2$", "<b>", " ", "日本"])]
    found = explanation(np.eye(4), tokens=tokens)
    for name in ("one.svg", "two.svg"):
        save_figure(found.plot(), tmp_path / name)
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert [f">{label}<" in text for label in ("$x^2$", "&lt;b&gt;", "␣", "日本")] == [True] * 4


def test_labels_are_always_visible() -> None:
    assert [label_of(text) for text in ("a b", " ", "\n\n", "", "a\tb\x00")] == ["a b", "␣", "↵↵", "∅", "a⇥b·"]


def test_without_matplotlib_an_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trained: Trained
) -> None:
    monkeypatch.setattr("heedful.explain.figures.find_spec", lambda name: None)
    with pytest.raises(HeedfulError, match=r"pip install 'heedful\[plots\]'"):
        check_output(tmp_path / "picture.png")
    check_output(tmp_path / "page.html")  # needs none
    with pytest.raises(HeedfulError, match="needs matplotlib"):
        explanation(np.eye(1), tokens=[Token(0, "a")]).plot()


def test_where_nothing_can_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in .html, .png, .svg, .pdf or .json"):
        check_output(tmp_path / "picture.bmp")
    with pytest.raises(HeedfulError, match="there is no directory"):
        check_output(tmp_path / "absent" / "picture.png")
