"""`heedful explain` and `heedful compare` as a user runs them: on the terminal, to files, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import TASKS, Run, Trained, write_examples

GIVEN: dict[str, list[str]] = {
    "translation": ["1 2 3"],
    "summarization": ["the sun is over 7 rivers ."],
    "language-model": ["the sun", "--length", "4"],
    "bert-pretraining": ["the [MASK] is over"],
    "classification": ["the sun is over 7 rivers ."],
    "tagging": ["on 7 May 1984 ."],
    "question-answering": ["Where does person 1b live?", "Person 1a lives in Oslo. Person 1b lives in Rome."],
}


def given(task: str, folder: Path) -> list[str]:
    if task == "image-classification":
        return [str(next(write_examples(task, folder, 2).rglob("*.png")))]
    return GIVEN[task]


@pytest.mark.parametrize("task", TASKS)
def test_every_job_is_explained_on_the_terminal_and_in_files(task: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    words = given(task, tmp_path)
    said, err = run("explain", trained(task), *words)
    assert err == ""
    assert "attention, layer 1, all heads averaged" in said
    assert "Candidates" in said
    assert "Logit lens" in said
    row = json.loads(run("explain", trained(task), *words, "--json")[0])
    assert (row["job"], row["model"], row["input"]) == (task, task, words[0])
    assert " ".join(row["output"].split()) in " ".join(said.split())
    run("explain", trained(task) / "best", *words, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<title>{task}/best — heedful</title>" in page
    assert "heedful/draw/attention.js" in page
    run("explain", trained(task), *words, "--out", tmp_path / "it.json")
    assert json.loads((tmp_path / "it.json").read_text(encoding="utf-8")) == row


def test_pictures_show_what_is_asked_for(trained: Trained, run: Run, tmp_path: Path) -> None:
    model = trained("translation")
    run(
        "explain",
        model,
        "1 2",
        "--target",
        "two one",
        "--part",
        "decoder",
        "--layer",
        "1",
        "--head",
        "2",
        "--out",
        tmp_path / "a.svg",
    )
    assert "layer 1, head 2" in (tmp_path / "a.svg").read_text()
    run("explain", model, "1 2", "--beam", 2, "--show", "beam", "--out", tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    said = run("explain", model, "1 2", "--beam", 3)[0]
    assert "Beam of 3" in said
    forced = run("explain", model, "1 2", "--target", "nine nine", "--beam", 3)[0]
    assert "nine nine" in forced
    assert "Beam" not in forced


def test_what_heads_attend_to_when_a_word_is_read(trained: Trained, run: Run, tmp_path: Path) -> None:
    model = trained("bert-pretraining")
    said = run("explain", model, "the sun is over it and it rains", "--word", "it#2")[0]
    assert "Encoder attention when “it” is read" in said
    assert said.count("layer 1 head") == 2
    row = json.loads(run("explain", model, "the sun is over it", "--word", "IT", "--json")[0])
    (part,) = row["parts"]
    assert part["words"] == ["[CLS]", "the", "sun", "is", "over", "it", "[SEP]"]
    assert sum(part["weights"][0][1]) == pytest.approx(1, abs=1e-4)
    run("explain", model, "the sun is over it", "--word", "it", "--out", tmp_path / "it.html")
    assert "layer 1 head 2" in (tmp_path / "it.html").read_text()
    assert "reads no word “moon” here" in run("explain", model, "the sun", "--word", "moon", code=2)[1]


@pytest.mark.parametrize("task", TASKS)
def test_heads_are_summarised_over_the_lines_of_a_file(task: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    words = given(task, tmp_path)
    line = json.dumps({"question": words[0], "passage": words[1]}) if task == "question-answering" else words[0]
    (tmp_path / "lines").write_text(f"{line}\n\n{line}\n")
    row = json.loads(run("explain", trained(task), "--heads", tmp_path / "lines", "--json")[0])
    assert row["texts"] == 2
    for head in row["heads"]:
        assert head["entropy"] >= 0
        assert 0 <= head["first"] <= 1
        assert (head["distance"] is None) == (head["part"] == "cross")
    said = run("explain", trained(task), "--heads", tmp_path / "lines")[0]
    assert said.count("layer 1 head") == len(row["heads"])


def test_a_line_that_cannot_be_used_is_told_and_the_others_are_summarised(trained: Trained, run: Run, tmp_path: Path) -> None:
    model = trained("question-answering")
    question = json.dumps({"question": "Where?", "passage": "Person 1a lives in Oslo."})
    (tmp_path / "lines").write_text(f"no json\n{question}\n")
    out, err = run("explain", model, "--heads", tmp_path / "lines", "--json")
    assert "line 1: this line is not a JSON object" in err
    assert json.loads(out)["texts"] == 1
    long = "1 " * 3000
    (tmp_path / "lines").write_text(f"{long}\n1 2 3\n{long}\n")
    out, err = run("explain", trained("translation"), "--heads", tmp_path / "lines", "--json")
    assert json.loads(out)["texts"] == 1
    assert err.count("too long") == 2
    assert "line 3: a text of 6,000 tokens is too long" in err
    (tmp_path / "lines").write_text("\n")
    assert "has no line that could be explained" in run("explain", model, "--heads", tmp_path / "lines", code=1)[1]


def test_words_are_aligned_and_scored(trained: Trained, run: Run, tmp_path: Path) -> None:
    model = trained("translation")
    (tmp_path / "one").write_text("1 2 3\n4 5\n")
    (tmp_path / "two").write_text("three two one\nfive four\n")
    said = run("explain", model, "--align", tmp_path / "one", "--translation", tmp_path / "two")[0]
    lines = [line.split() for line in said.splitlines()]
    assert [[link.split("-")[1] for link in line] for line in lines] == [["0", "1", "2"], ["0", "1"]]
    (tmp_path / "pairs.tsv").write_text("1 2 3\tthree two one\n4 5\tfive four\n")
    assert run("explain", model, "--align", tmp_path / "pairs.tsv")[0] == said
    (tmp_path / "gold").write_text(said)  # as if the model were right
    scored = ["explain", model, "--align", tmp_path / "pairs.tsv", "--gold", tmp_path / "gold"]
    row = json.loads(run(*scored, "--json")[0])
    assert row["error_rate"] == row["error_rates"][0][0] == 0.0
    assert row["alignments"] == said.splitlines()
    assert (
        "Alignment error rate over 2 pairs"
        in run("explain", model, "--align", tmp_path / "pairs.tsv", "--gold", tmp_path / "gold")[0]
    )
    read = run("explain", model, "--align", tmp_path / "pairs.tsv", "--when", "read", "--head", 1)[0]
    assert len(read.splitlines()) == 2
    run(*scored, "--out", tmp_path / "aer.png")
    assert (tmp_path / "aer.png").read_bytes().startswith(b"\x89PNG")


def test_positions_are_shown_with_and_without_a_model(trained: Trained, run: Run, tmp_path: Path) -> None:
    assert "sinusoidal: cosine of two vectors by distance" in run("explain", "--positions", "sinusoidal")[0]
    own = json.loads(run("explain", trained("bert-pretraining"), "--positions", "own", "--json")[0])
    assert [one["kind"] for one in own["positions"]] == ["learned"]
    run("explain", "--positions", "all", "--out", tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 10_000


def test_runs_are_compared(trained: Trained, run: Run, tmp_path: Path) -> None:
    runs = [trained("translation"), trained("classification")]
    said = run("compare", *runs)[0]
    assert "Settings that differ" in said
    assert "finished after 40 steps" in said
    row = json.loads(run("compare", *runs, "--json")[0])
    assert row["differences"]["task"] == ["translation", "classification"]
    run("compare", *runs, "--out", tmp_path / "runs.html")
    assert (tmp_path / "runs.html").read_text().count("<svg") > 3
    assert "there is no run directory absent" in run("compare", runs[0], "absent", code=1)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "name a model"),
        (["explain", "--positions", "own"], "name a model"),
        (["explain", "--positions", "sinus"], "there are no positions 'sinus'"),
        (["explain", "MODEL"], "give the text to explain"),
        (["explain", "MODEL", "a", "b", "c"], "one input is explained at a time, not 3"),
        (["explain", "MODEL", "a", "--out", "it.bmp"], "must end in .html, .png, .svg, .pdf or .json"),
        (["explain", "MODEL", "--align", "x.tsv", "--out", "it.html"], "must end in .png, .svg, .pdf or .json"),
        (["explain", "MODEL", "a", "--layer", "7"], "the cross attention has the layers 1 to 1, not 7"),
        (["explain", "MODEL", "a", "--layer", "x"], "layer must be a number or 'all', not 'x'"),
        (["explain", "MODEL", "a", "--head", "7"], "a layer has the heads 1 to 2, not 7"),
        (["explain", "MODEL", "a", "--part", "pooling"], "this model has no attention 'pooling'"),
        (["explain", "MODEL", "a", "--show", "all"], "'all' is not one of"),
        (["explain", "MODEL", "a", "--beam", "0"], "beam must be at least 1"),
        (["explain", "MODEL", "a", "--gold", "x"], "--gold goes with --align"),
        (["explain", "MODEL", "a", "--heads", "x"], "--heads takes no text"),
        (["explain", "MODEL", "--heads", "x", "--align", "y"], "--heads and --align cannot be combined"),
        (["explain", "MODEL", "a", "--passage", "absent.txt"], "absent.txt"),
        (["compare"], "Missing argument"),
    ],
)
def test_wrong_requests_are_refused_in_words(arguments: list[str], message: str, trained: Trained, run: Run) -> None:
    words = [str(trained("translation")) if word == "MODEL" else word for word in arguments]
    code = 1 if "absent.txt" in arguments else 2
    assert message in " ".join(run(*words, code=code)[1].replace("│", " ").split())
