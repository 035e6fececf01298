"""Every verb of every job: from arguments, a file and standard input, for people and for machines; and what it refuses."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import TASKS as JOBS
from conftest import Run, Trained, write_examples, write_pairs
from heedful.cli.main import VERBS
from heedful.jobs.registry import JOBS as ALL_JOBS
from heedful.pipelines import load_pipeline
from heedful.pipelines.embedder import Embedder

PASSAGE = "Person 1a lives in Oslo. Person 1b lives in Rome."
NEEDS = {
    "translate": ("translation",),
    "summarize": ("summarization",),
    "generate": ("language-model",),
    "fill": ("bert-pretraining",),
    "embed": ("embedding", "bert-pretraining", "classification", "tagging", "question-answering"),
    "classify": ("classification", "image-classification"),
    "tag": ("tagging",),
    "answer": ("question-answering",),
}
# Verb → the job of its model, three lines for it, and options that make it quick and certain.
USES: dict[str, tuple[str, list[str], list[str]]] = {
    "translate": ("translation", ["1 2 3", "4", "7 7 1"], []),
    "summarize": ("summarization", ["the sun is over 7 rivers .", "the rain is over 1 stones .", "snow"], []),
    "generate": ("language-model", ["the sun", "the", "rain is over"], ["--beam", "1", "--length", "5"]),
    "fill": ("bert-pretraining", ["the [MASK] is over", "[MASK]", "7 [MASK] [MASK] ."], ["--top", "2"]),
    "embed": ("classification", ["the sun", "the rain", "snow ☃"], []),
    "classify": ("classification", ["the sun is over 7 rivers", "rain", "日本"], ["--top", "3"]),
    "tag": ("tagging", ["on 7 May 1984 .", "May", "on 12 July"], []),
    "answer": (
        "question-answering",
        [json.dumps({"question": f"Where does person 1{who} live?", "passage": PASSAGE}) for who in "abc"],
        [],
    ),
}


def use(verb: str, trained: Trained) -> tuple[Path, list[str], list[str]]:
    task, lines, options = USES[verb]
    return trained(task), lines, options


def test_every_verb_that_uses_a_model_is_tried_here() -> None:
    others = {"train", "finish", "evaluate", "explain", "compare", "recipes", "info", "import", "export", "page", "serve"}
    others |= {"complexity", "check"}
    assert set(USES) == set(NEEDS) == set(VERBS) - others


@pytest.mark.parametrize("verb", USES)
def test_arguments_a_file_and_standard_input_are_one(verb: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    model, lines, options = use(verb, trained)
    out, err = run(verb, model, *lines, *options)
    assert out.strip()
    assert err == ""
    text = "".join(f"{line}\n" for line in lines)
    (tmp_path / "lines.gz").write_bytes(gzip.compress(text.encode()))
    assert run(verb, model, "--input", tmp_path / "lines.gz", *options)[0].split() == out.split()
    assert run(verb, model / "best", *options, stdin=text)[0].split() == out.split()


@pytest.mark.parametrize("verb", USES)
def test_json_is_an_object_a_line_in_the_order_of_the_input(verb: str, trained: Trained, run: Run) -> None:
    model, lines, options = use(verb, trained)
    rows = [json.loads(line) for line in run(verb, model, *lines, *options, "--json")[0].splitlines()]
    key = {"translate": "source", "summarize": "document", "generate": "prompt", "classify": "input", "answer": "question"}
    given = [json.loads(line)["question"] for line in lines] if verb == "answer" else lines
    assert [row[key.get(verb, "text")] for row in rows] == given


def rows_of(verb: str, trained: Trained, run: Run) -> tuple[Any, list[str], list[dict[str, Any]]]:
    model, lines, options = use(verb, trained)
    out, _ = run(verb, model, *lines, *options, "--json")
    return load_pipeline(model), lines, [json.loads(line) for line in out.splitlines()]


def test_generate_writes_the_prompt_and_what_follows(trained: Trained, run: Run) -> None:
    writer, lines, rows = rows_of("generate", trained, run)
    expected = writer.generate(lines, length=5, beam=1)
    assert [row["text"] for row in rows] == expected
    model, _, options = use("generate", trained)
    said = run("generate", model, *lines, *options)[0]
    assert said == "\n".join(f"{prompt}{text}\n" for prompt, text in zip(lines, expected, strict=True))


def test_generate_draws_the_same_for_the_same_seed(trained: Trained, run: Run) -> None:
    drawn = ["generate", trained("language-model"), "the", "rain", "--count", 3, "--length", 8, "--temperature", 1.5, "--json"]
    first = run(*drawn, "--seed", 5)[0]
    texts = [json.loads(line) for line in first.splitlines()]
    assert [row["prompt"] for row in texts] == ["the"] * 3 + ["rain"] * 3
    assert len({row["text"] for row in texts}) > 3
    assert run(*drawn, "--seed", 5)[0] == first
    assert run(*drawn, "--seed", 6)[0] != first


def test_fill_gives_guesses_for_every_mask(trained: Trained, run: Run) -> None:
    masked, lines, rows = rows_of("fill", trained, run)
    found = [[[(g["token"], g["probability"]) for g in place] for place in row["masks"]] for row in rows]
    assert [len(places) for places in found] == [1, 1, 2]
    for mine, theirs in zip(found, masked.fill(lines, top=2), strict=True):
        assert [[token for token, _ in place] for place in mine] == [[token for token, _ in place] for place in theirs]
        assert all(0 < p < 1 for place in mine for _, p in place)


def test_classify_gives_labels_with_probabilities(trained: Trained, run: Run) -> None:
    classifier, lines, rows = rows_of("classify", trained, run)
    assert [[entry["label"] for entry in row["labels"]] for row in rows] == [
        [label for label, _ in found] for found in classifier.classify(lines, top=3)
    ]
    said = run("classify", trained("classification"), lines[0])[0]
    label, probability = classifier.classify(lines)[0][0]
    assert said == f"{label} {probability:.1%}\n"


def test_classify_takes_image_files(trained: Trained, run: Run, tmp_path: Path) -> None:
    folder = write_examples("image-classification", tmp_path, 4)
    images = [str(path) for path in sorted(folder.rglob("*.png"))]
    rows = [json.loads(line) for line in run("classify", trained("image-classification"), *images, "--json")[0].splitlines()]
    assert [row["input"] for row in rows] == images
    assert {row["labels"][0]["label"] for row in rows} <= {"lower", "upper"}
    assert "there is no image absent.png" in run("classify", trained("image-classification"), "absent.png", code=1)[1]


def test_tag_writes_conll_columns(trained: Trained, run: Run) -> None:
    tagger, lines, rows = rows_of("tag", trained, run)
    tagged = tagger.tag(lines)
    assert [[(entry["word"], entry["tag"]) for entry in row["words"]] for row in rows] == tagged
    said = run("tag", trained("tagging"), *lines)[0]
    assert said == "".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) + "\n" for sentence in tagged)


def test_answer_takes_its_passage_from_a_file_too(trained: Trained, run: Run, tmp_path: Path) -> None:
    answerer, lines, rows = rows_of("answer", trained, run)
    questions = [json.loads(line)["question"] for line in lines]
    assert [row["answer"] for row in rows] == [text for text, _ in answerer.answer([(q, PASSAGE) for q in questions])]
    assert all(row["answer"] in PASSAGE for row in rows)
    (tmp_path / "passage.txt").write_text(PASSAGE)
    said = run("answer", trained("question-answering"), *questions, "--passage", tmp_path / "passage.txt")[0]
    assert said.splitlines() == [row["answer"] for row in rows]


@pytest.mark.parametrize(
    ("line", "code", "fault"),
    [
        ("Where?", 2, 'give --passage FILE, or JSON lines of {"question": …, "passage": …}'),
        ('{"question": "Where?"}', 1, 'this line is not a JSON object with "question" and "passage": {"question": "Where?"}'),
        ('{"question": "Where?", "passage": 3}', 1, '"question" and "passage" must be text in {"question": "Where?"'),
    ],
)
def test_a_question_without_a_passage_is_refused(line: str, code: int, fault: str, trained: Trained, run: Run) -> None:
    assert fault in run("answer", trained("question-answering"), line, code=code)[1]


def test_summarize_takes_a_whole_file_as_one_document(trained: Trained, run: Run, tmp_path: Path) -> None:
    text = "the sun is over 7 rivers .\nthe rain is over 1 stones .\n"
    (tmp_path / "report.txt").write_text(text)
    rows = run("summarize", trained("summarization"), "--input", tmp_path / "report.txt", "--whole", "--json")[0].splitlines()
    (row,) = map(json.loads, rows)
    assert row["document"] == text.rstrip("\n")
    assert row["summary"] == load_pipeline(trained("summarization")).translate([text.rstrip("\n")])[0].replace("\n", " ")


@pytest.mark.parametrize("task", ["bert-pretraining", "classification", "tagging", "question-answering"])
def test_embed_writes_arrays_and_json_of_any_bert(task: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    lines = USES["embed"][1]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    expected = Embedder.of(load_pipeline(trained(task))).embed(lines)
    for name in ("vectors.npy", "vectors.jsonl"):
        out, _ = run("embed", trained(task), "--input", tmp_path / "lines", "--output", tmp_path / name)
        assert out == f"3 vectors of 16 in {tmp_path / name}\n"
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)
    rows = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == lines
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-6)
    said = [json.loads(line) for line in run("embed", trained(task), *lines)[0].splitlines()]
    np.testing.assert_allclose([row["vector"] for row in said], expected, atol=1e-6)


def test_embed_checks_where_it_writes_before_the_work(trained: Trained, run: Run, tmp_path: Path) -> None:
    embed = ["embed", trained("tagging"), "text", "--output"]
    assert f"{tmp_path / 'vectors.csv'} must end in .npy or .jsonl" in run(*embed, tmp_path / "vectors.csv", code=2)[1]
    assert "there is no directory" in run(*embed, tmp_path / "no" / "vectors.npy", code=1)[1]


def test_no_lines_are_no_vectors(trained: Trained, run: Run, tmp_path: Path) -> None:
    run("embed", trained("tagging"), "--output", tmp_path / "vectors.npy", stdin="")
    assert np.load(tmp_path / "vectors.npy").shape == (0, 16)


# Models of the wrong kind


@pytest.mark.parametrize("verb", NEEDS)
def test_a_model_of_the_wrong_kind_is_refused_in_words(verb: str, trained: Trained, run: Run) -> None:
    needed = " or ".join(ALL_JOBS[name].what for name in NEEDS[verb])
    for task in JOBS:
        if task not in NEEDS[verb]:
            out, err = run(verb, trained(task), "text", code=1)
            assert err == f"error: {trained(task)} is {ALL_JOBS[task].what}; `{verb}` needs {needed}\n"
            assert out == ""


def test_the_words_are_those_a_person_would_use(trained: Trained, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained("language-model").parent)
    _, err = run("translate", "language-model", "text", code=1)
    assert err == "error: language-model is a language model; `translate` needs a translation model\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "MODEL", "x", "--length", "0"],
        ["generate", "MODEL", "x", "--top-p", "2"],
        ["generate", "MODEL", "x", "--beam", "2", "--count", "2"],
        ["generate", "MODEL", "x", "--device", "abacus"],
        ["generate", "MODEL", "x", "--input", "file"],
        ["generate", "MODEL", "x", "--loud"],
        ["generate"],
        ["evaluate", "MODEL"],
        ["evaluate", "MODEL", "--source", "x"],
        ["evaluate", "MODEL", "text", "--reference", "x"],
        ["classify", "MODEL", "x", "--top", "0"],
        ["fill", "MODEL", "x", "--top", "none"],
    ],
)
def test_an_impossible_request_exits_with_2(arguments: list[str], trained: Trained, run: Run) -> None:
    model = trained("language-model")
    out, err = run(*(str(model) if word == "MODEL" else word for word in arguments), code=2)
    assert out == ""
    assert "Traceback" not in err
    assert "rror" in err


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_examples_that_name_the_verb(verb: str, run: Run) -> None:
    out, _ = run(verb, "--help")
    assert any(line.strip().startswith(f"heedful {verb}") for line in out.split("Example")[1].splitlines())


# evaluate

METRICS = {
    "translation": {"bleu", "chrf", "exact", "perplexity"},
    "summarization": {"rouge1", "rouge2", "rougeL", "perplexity"},
    "language-model": {"perplexity", "bits_per_byte"},
    "bert-pretraining": {"masked_accuracy", "next_accuracy", "perplexity"},
    "classification": {"accuracy", "macro_f1"},
    "tagging": {"f1", "precision", "recall", "accuracy"},
    "question-answering": {"exact", "f1"},
    "image-classification": {"accuracy", "top5", "macro_f1"},
}


@pytest.mark.parametrize("task", JOBS)
def test_evaluate_prints_the_usual_metrics_of_the_job(task: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    if task == "translation":
        source, target = write_pairs(tmp_path, 12, seed=9)
        held: list[object] = ["--source", source, "--reference", target]
    else:
        held = [write_examples(task, tmp_path, 12, seed=9)]
    scores = json.loads(run("evaluate", trained(task), *held, "--json", "--output", tmp_path / "said")[0])
    assert METRICS[task] <= set(scores)
    assert scores["examples"] >= 12
    said = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert said
    out, _ = run("evaluate", trained(task), *held)
    assert out.startswith("examples ")
    shown = {"bits_per_byte": "bits per byte", "macro_f1": "macro-F1", "rougeL": "ROUGE-L", "top5": "top-5", "bleu": "BLEU"}
    assert any(label in out for key, label in shown.items() if key in METRICS[task]) or "%" in out
    again = json.loads(run("evaluate", trained(task) / "best", *held, "--json")[0])
    assert again == scores


@pytest.mark.parametrize("task", [task for task in JOBS if task != "translation"])
def test_evaluate_names_data_that_is_missing_or_of_another_job(task: str, trained: Trained, run: Run, tmp_path: Path) -> None:
    _, err = run("evaluate", trained(task), tmp_path / "absent", code=1)
    assert str(tmp_path / "absent") in err
    assert "nothing to score on" in run("evaluate", trained(task), code=2)[1]
    (tmp_path / "empty.jsonl").touch()
    _, err = run("evaluate", trained(task), tmp_path / "empty.jsonl", code=1)
    assert "empty.jsonl" in err
    assert "unexpected" not in err


@pytest.mark.parametrize("task", JOBS)
def test_info_tells_of_every_kind_of_model(task: str, trained: Trained, run: Run) -> None:
    out, _ = run("info", trained(task))
    model = load_pipeline(trained(task)).model
    assert out.strip().startswith(f"{task} (best by ")
    assert not re.search(r"\*\*|```|\|---|^#", out, re.MULTILINE), "Markdown is rendered, not shown raw"
    assert f"{sum(parameter.numel() for parameter in model.parameters()):,}" in out
    assert ("vocabulary" in out) == (task != "image-classification")
