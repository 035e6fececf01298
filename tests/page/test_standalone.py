"""`heedful page`: one file that holds models and runs them in a real browser, without a server and without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from node_engine import ask_engine

from browser import OpenPage
from conftest import TASKS, Run, Trained, small_recipe
from heedful.page.model_file import compressed, header_of, pack_model
from heedful.pipelines import load_pipeline
from heedful.runtime.screen import Silence
from heedful.training.run import train

OPEN = """async (name) => {
  const { app } = await globalThis.heedfulPage;
  return app.host.open(name);
}"""
TRANSLATE = f"async ([name, text]) => (await (await ({OPEN})(name)).translate(text)).translations[0].text"


def test_a_file_opened_from_disk_translates_with_the_network_off(
    trained: Trained, run: Run, open_page: OpenPage, tmp_path: Path
) -> None:
    out = tmp_path / "digits.html"
    written, _ = run("page", f"digits={trained('translation')}", out)
    assert str(out) in written
    page = open_page(out, offline=True)
    page.wait_for_function("globalThis.heedfulPage")
    pipeline: Any = load_pipeline(trained("translation"))
    for text in ("1 2 3", "7 7 0 4 9 2"):
        assert page.evaluate(TRANSLATE, ["digits", text]) == pipeline.translate(text)


def test_every_job_fits_into_one_file(trained: Trained, run: Run, open_page: OpenPage, tmp_path: Path) -> None:
    out = tmp_path / "all.html"
    run("page", *(f"{task}={trained(task)}" for task in TASKS), out, "--int8")
    page = open_page(out, offline=True)
    page.wait_for_function("globalThis.heedfulPage")
    names = page.evaluate("async () => (await globalThis.heedfulPage).app.host.models.map(({name}) => name)")
    assert names == list(TASKS)
    for task in TASKS:
        found = page.evaluate(f"async (name) => {{ const m = await ({OPEN})(name); return [m.kind, m.bits, m.verbs[0]]; }}", task)
        assert found[1] == 8


def test_nothing_in_the_file_can_end_its_scripts(trained: Trained, open_page: OpenPage, tmp_path: Path) -> None:
    from heedful.page.standalone import standalone_page

    pipeline = load_pipeline(trained("translation"))
    evil = "</script><script>throw new Error('run')</script><!-- <script>"
    out = tmp_path / "evil.html"
    out.write_text(standalone_page([pack_model(pipeline, "digits", samples=[{"text": evil}])]), encoding="utf-8")
    page = open_page(out, offline=True)
    page.wait_for_function("globalThis.heedfulPage")
    assert page.evaluate("async () => (await globalThis.heedfulPage).app.host.models[0].samples[0].text") == evil


def test_the_samples_of_a_run_are_offered(trained: Trained) -> None:
    from heedful.page.samples import samples_of_run

    for task in TASKS:
        samples = samples_of_run(trained(task) / "best", task)
        assert samples, task
        wanted = {"image-classification": {"image", "label"}, "question-answering": {"question", "passage"}}.get(task, {"text"})
        assert all(set(sample) == wanted for sample in samples), task


def test_samples_of_ones_own(trained: Trained, run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("1 2\n\n3\n", encoding="utf-8")
    (tmp_path / "asked").write_text("Who?\tShe.\n", encoding="utf-8")
    for task, name, samples in (
        ("translation", "texts", [{"text": "1 2"}, {"text": "3"}]),
        ("question-answering", "asked", [{"question": "Who?", "passage": "She."}]),
    ):
        run("page", f"m={trained(task)}", tmp_path / "out.html", "--samples", tmp_path / name)
        manifest = re.search(r'id="heedful-models">(.+)</script>', (tmp_path / "out.html").read_text(encoding="utf-8"))
        assert manifest is not None
        assert json.loads(manifest[1])["models"][0]["samples"] == samples
    _, err = run("page", trained("question-answering"), tmp_path / "x.html", "--samples", tmp_path / "texts", code=1)
    assert "line 1" in err
    assert "no tab" in err


def test_earlier_weights_are_kept_and_put_in(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "run"
    train(small_recipe("translation", tmp_path / "data", "training.history=10", "training.steps=30"), folder, Silence())
    assert [path.name for path in sorted((folder / "history").iterdir())] == [
        f"step-{step:09d}.safetensors" for step in (0, 10, 20, 30)
    ]
    run("page", folder, tmp_path / "out.html", "--checkpoints", "3")
    from heedful.training.weight_history import earlier_weights

    pipeline = load_pipeline(folder)
    packed = pack_model(pipeline, "digits", checkpoints=earlier_weights(folder / "best", pipeline.model, 3))
    assert [one["step"] for one in header_of(packed)["checkpoints"]] == [0, 20, 30]
    body = """
      const said = [];
      for (let index = 0; index < model.checkpoints.length; index++) {
        await model.useCheckpoint(index);
        const { translations: [best] } = await model.translate("1 2 3", { beam: 1 });
        said.push([model.checkpoints[index].step, best.log_probability]);
      }
      return said;
    """
    (said,) = ask_engine(tmp_path, [[body]], packed)
    assert [step for step, _ in said] == [0, 20, 30, None]
    assert len({value for _, value in said[:3]}) == 3  # the model learned in between
    assert said[2][1] == pytest.approx(said[3][1], rel=0.02)


def test_a_model_file_is_the_same_every_time(trained: Trained) -> None:
    files = [compressed(pack_model(load_pipeline(trained("translation")), "digits")) for _ in range(2)]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["MODEL"], 2, "must end in .html"),
        (["MODEL", "out.txt"], 2, "must end in .html"),
        (["MODEL", "nowhere/out.html"], 2, "there is no directory nowhere"),
        (["nothing", "out.html"], 1, "there is no model directory nothing"),
        (["MODEL", "MODEL", "out.html"], 2, "two models are called"),
        (["MODEL", "out.html", "--checkpoints", "2"], 1, "training.history=STEPS keeps some"),
        (["MODEL", "out.html", "--checkpoints", "-1"], 2, "at least 0"),
        (["MODEL", "out.html", "--samples", "nothing.txt"], 1, "nothing.txt"),
    ],
)
def test_mistakes_are_told_in_words(
    arguments: list[str], code: int, said: str, trained: Trained, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, err = run("page", *(trained("translation") if one == "MODEL" else one for one in arguments), code=code)
    assert said in err
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("unt: go to it.\n\nPETRUCHIO:\nYou wrong me, sir", "\nPETRUCHIO:\nYou wrong me, sir"),
        ("ing the list of words and more", "the list of words and more"),
        ("whole", "whole"),
    ],
)
def test_a_sample_that_is_cut_out_of_a_text_begins_with_a_whole_word(text: str, kept: str) -> None:
    from heedful.page.samples import from_a_line_on

    assert from_a_line_on(text) == kept
