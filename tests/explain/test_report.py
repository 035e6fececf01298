"""The report of a run says the right things in the right order, whatever the run recorded. How it looks: the browser's test."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import TASKS, Trained
from heedful.explain import templates
from heedful.explain.attention_json import LONGEST
from heedful.explain.heads import MEASURES
from heedful.explain.report import learning_curves, main_score_first, typical_explanation, write_report
from heedful.explain.two_languages import in_two_languages, korean_texts
from heedful.pipelines import load_pipeline
from heedful.pipelines.classifier import Classifier

TEMPLATES = Path(templates.__file__).parent


def rewritten(run: Path, folder: Path, entries: list[dict[str, Any]] | None = None, **changes: Any) -> str:
    """The report of a finished run under another name, with other entries in its log and other results."""
    folder.mkdir()
    shutil.copy(run / "recipe.toml", folder)
    shutil.copy(run / "metrics.jsonl", folder)
    if entries is not None:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    results: Any = {**json.loads((run / "results.json").read_text(encoding="utf-8")), **changes}
    return english(write_report(folder, results, load_pipeline(run), [], "tokens"))


def english(path: Path) -> str:
    """A page without its Korean texts."""
    return re.sub(r'<span data-ko="[^"]*">(.*?)</span>', r"\1", path.read_text(encoding="utf-8"))


def drawn_in(page: str) -> dict[str, Any]:
    """The explanation embedded in a page."""
    found: dict[str, Any] = json.loads(page.split('id="explanation">')[1].split("</script>")[0])
    return found


@pytest.mark.parametrize("task", TASKS)
def test_the_report_of_every_job_stands_alone(task: str, trained: Trained) -> None:
    page = english(trained(task) / "report.html")
    assert "{{" not in page
    assert not re.search(r'(src|href)="(?!data:)|url\(|@import|fetch\(', page), "the page must not need other files"
    assert not re.search(r"\d\.\d{7}", page), "a number has too many digits"
    drawn = drawn_in(page)
    assert drawn["attention"]
    for one in drawn["attention"]:
        rows, columns = (len(drawn["sequences"][one[side]]["tokens"]) for side in ("queries", "keys"))
        assert max(rows, columns) <= LONGEST
        weights = one["layers"][0]["weights"]
        assert weights["shape"][1:] == [rows, columns]
        assert all(isinstance(weight, int) for weight in weights["data"])
        if not one["note"]:  # what is cut off is missing
            sums = [sum(weights["data"][start : start + columns]) for start in range(0, len(weights["data"]), columns)]
            assert sums == pytest.approx([weights["scale"]] * len(sums), abs=20)
    assert page.count("<svg") >= 2
    samples = json.loads((trained(task) / "results.json").read_text(encoding="utf-8"))["samples"]
    assert samples
    assert page.count('<small class="name">') == 3 * len(samples)


def test_a_sample_of_an_image_shows_the_image(trained: Trained) -> None:
    run = trained("image-classification")
    samples = json.loads((run / "results.json").read_text(encoding="utf-8"))["samples"]
    page = english(run / "report.html")
    assert len(samples) == page.count('<img src="data:image/png;base64,')
    assert samples[0]["image"] in page


def test_the_title_is_the_name_of_the_run_and_the_recipe_stands_beneath(trained: Trained, tmp_path: Path) -> None:
    page = rewritten(trained("classification"), tmp_path / "third <try>")
    assert "<title>third &lt;try&gt; — heedful</title>" in page
    assert re.search(r"<h1[^>]*>third &lt;try&gt;</h1>\s*<p[^>]*>Recipe: <bdi>classification</bdi>", page)


def test_the_score_that_chose_the_best_checkpoint_comes_first(trained: Trained) -> None:
    scores = {"bleu": 30.0, "chrf": 50.0, "exact": 5.0, "loss": 1.0, "perplexity": 2.718}
    assert list(main_score_first(scores, "bleu")) == ["BLEU", "chrF", "exact match", "perplexity"]
    assert list(main_score_first(scores, "exact")) == ["exact match", "BLEU", "chrF", "perplexity"]
    assert list(main_score_first(scores, "loss")) == ["loss", "BLEU", "chrF", "exact match", "perplexity"]
    page = english(trained("tagging") / "report.html")
    assert re.search(r'<li class="card main"><b>[\d.]+ %</b><span>F1</span>', page)
    assert "<th>model</th><th>data</th><th>F1</th><th>accuracy</th>" in page
    chart = next(chart for chart in learning_curves([{"kind": "valid", "step": 1, "accuracy": 1.0, "f1": 2.0}], "f1", "words"))
    assert [line.name for line in chart.lines] == ["F1", "accuracy"]


def test_a_run_whose_losses_are_not_finite_has_a_report_too(trained: Trained, tmp_path: Path) -> None:
    entries = [
        {"kind": "train", "step": 1, "nll": None, "tokens_per_second": None},
        {"kind": "valid", "step": 2, "loss": None, "bleu": 12.5},
    ]
    results = {name: {"validation": {"bleu": 12.5, "loss": None, "perplexity": float("nan")}} for name in ("best", "final")}
    page = rewritten(trained("translation"), tmp_path / "diverged", entries, **results)
    assert page.count("<svg") == page.count("<circle") == 1
    assert "Scores on the validation set" in page
    assert "not finite" in page
    assert "which was used to choose the best checkpoint, and not to train" in page
    assert "There are none" in rewritten(trained("translation"), tmp_path / "nothing", [])


def test_text_is_escaped_and_an_empty_output_is_named(trained: Trained, tmp_path: Path) -> None:
    samples = [{"input": "<script>alert(1)</script>", "output": "", "reference": "a & b"}]
    page = rewritten(trained("translation"), tmp_path / "run", samples=samples)
    assert "<script>alert" not in page
    assert "a &amp; b" in page
    assert '<div class="text empty" dir="auto">empty</div>' in page


def test_a_run_that_was_stopped_says_so(trained: Trained, tmp_path: Path) -> None:
    page = rewritten(trained("translation"), tmp_path / "run", unfinished="stopped at step 3 of 6")
    assert "This run is not finished: it was stopped at step 3 of 6." in page


def test_the_example_that_is_drawn_is_neither_the_shortest_nor_the_longest(trained: Trained) -> None:
    pipeline = load_pipeline(trained("classification"))
    assert isinstance(pipeline, Classifier)
    texts = ["sun", "the sun is over", "the rain is over 7 stones . " * 40]
    typical = typical_explanation(pipeline, [(text, "sun") for text in texts])
    assert typical is not None
    assert typical.input == "the sun is over"


def test_every_text_of_every_template_is_there_in_korean() -> None:
    said = [text for file in TEMPLATES.glob("*.template.html") for text in re.findall(r'say\("([^"]+)"', file.read_text("utf-8"))]
    assert len(said) > 30
    assert [text for text in said if text not in korean_texts()] == []
    names = re.compile(r"\{\w+\}")
    assert [text for text, korean in korean_texts().items() if sorted(names.findall(text)) != sorted(names.findall(korean))] == []


def test_a_text_in_two_languages_is_escaped_in_both() -> None:
    found = in_two_languages(
        "The best model is the checkpoint with the best {metric} on the validation set; "
        "the final model is the one at the end of training.",
        metric='<b>"',
    )
    assert "<b>" not in found
    assert found.count("&lt;b&gt;&#34;") == 2
    assert in_two_languages("<i>") == "&lt;i&gt;"
    assert 'data-ko="1층 헤드 2"' in in_two_languages("layer 1 head 2")
    measures = "; ".join(f"{name}: {about}" for name, about in MEASURES.items())
    assert "엔트로피: " in in_two_languages(measures)
    assert "특수 토큰: " in in_two_languages(measures)
    assert 'data-ko="검증 데이터의 정확도"' in in_two_languages("accuracy on the validation set")
