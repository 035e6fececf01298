"""`/api/<verb>` of every verb answers what the verb's `--json` prints, with the same options and the same refusals."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from servers import Server

from conftest import Run, sentences
from heedful.jobs.registry import VERBS

TEXTS = sentences(4)
CASES: list[tuple[str, str, list[str], dict[str, Any]]] = [
    ("translate", "en-de", ["1 2 3", "4 5", "", "7 7 7 7"], {}),
    ("translate", "en-de", ["1 2 3", "4 5"], {"beam": 3, "n_best": 2, "length_penalty": 1.0}),
    ("translate", "en-de", ["1 2 3"], {"sample": True, "n_best": 3, "seed": 7, "top_k": 5, "temperature": 1.5}),
    ("summarize", "summarization", TEXTS, {}),
    ("summarize", "summarization", TEXTS, {"beam": 1}),
    ("generate", "language-model", ["the sun", "", "of"], {"length": 12, "seed": 3, "temperature": 0.9, "top_p": 0.8}),
    ("generate", "language-model", ["the sun"], {"length": 9, "count": 3}),
    ("generate", "language-model", ["the sun", "the"], {"length": 9, "beam": 2}),
    ("fill", "bert-pretraining", ["the [MASK] is over 7 rivers .", "[MASK] [MASK]"], {"top": 3}),
    ("embed", "bert-pretraining", TEXTS, {}),
    ("embed", "classification", TEXTS, {}),
    ("classify", "classification", TEXTS, {"top": 3}),
    ("tag", "tagging", ["on 7 May 1984 .", "x"], {}),
]


def as_arguments(options: dict[str, Any]) -> list[str]:
    flags = {name: f"--{name.replace('_', '-')}" for name in options}
    return [part for name, value in options.items() for part in ([flags[name]] if value is True else [flags[name], str(value)])]


def assert_equal(found: Any, expected: Any) -> None:
    """Equal, but for the last digits of numbers, which depend on the size of a batch."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_equal(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=2e-5)
    else:
        assert found == expected


@pytest.mark.parametrize(("verb", "model", "inputs", "options"), CASES)
def test_the_answers_are_those_of_the_command_line(
    server: Server,
    models: dict[str, Path],
    run: Run,
    tmp_path: Path,
    verb: str,
    model: str,
    inputs: list[str],
    options: dict[str, Any],
) -> None:
    (tmp_path / "inputs.txt").write_text("".join(f"{text}\n" for text in inputs), encoding="utf-8")
    arguments = [verb, models[model], "--input", tmp_path / "inputs.txt", *as_arguments(options)]
    if verb == "embed":
        arguments += ["--output", tmp_path / "out.jsonl"]
        run(*arguments)
        printed = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    else:
        printed, _ = run(*arguments, "--json")
    expected = [json.loads(line) for line in printed.splitlines()]
    found = server.ask(f"/api/{verb}", {"model": model, "inputs": inputs, **options})
    assert found["model"] == model
    assert_equal(found["results"], expected)


def test_questions_are_answered_from_their_passage(server: Server, models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    passage = "Person 3a lives in Rome. Person 3b lives in Lima."
    question = {"question": "Where does person 3b live?", "passage": passage}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    printed, _ = run("answer", models["question-answering"], "--input", tmp_path / "questions.jsonl", "--json")
    expected = json.loads(printed)
    for inputs in (question, [question]):
        assert_equal(server.ask("/api/answer", {"inputs": inputs})["results"], [expected])


def picture(bright: str, size: int = 8) -> bytes:
    from PIL import Image

    image = Image.new("L", (size, size))
    image.putdata([200 if (row < size // 2) == (bright == "upper") else 20 for row in range(size) for _ in range(size)])
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def test_images_come_by_upload_as_base64_or_as_a_data_uri(
    server: Server, models: dict[str, Path], run: Run, tmp_path: Path
) -> None:
    content = {name: picture(name) for name in ("upper", "lower")}
    for name, data in content.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    printed, _ = run(
        "classify", models["image-classification"], *(tmp_path / f"{name}.png" for name in content), "--json", "--top", "2"
    )
    expected = [json.loads(line)["labels"] for line in printed.splitlines()]
    files = [("file", (f"{name}.png", data, "image/png")) for name, data in content.items()]
    uploaded = server.http.post("/api/classify", files=files, data={"model": "image-classification", "top": "2"}).json()
    assert [row["input"] for row in uploaded["results"]] == ["upper.png", "lower.png"]
    encoded = [base64.b64encode(data).decode() for data in content.values()]
    inputs = [encoded[0], f"data:image/png;base64,{encoded[1]}"]
    sent = server.ask("/api/classify", {"model": "image-classification", "inputs": inputs, "top": 2})
    for found in (uploaded, sent):
        assert_equal([row["labels"] for row in found["results"]], expected)


def test_what_is_no_image_is_refused_and_a_bomb_too(server: Server) -> None:
    from PIL import Image

    bomb = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(bomb, "PNG")  # 900 million pixels in some kilobytes
    assert len(bomb.getvalue()) < 300_000
    for content in (b"no image", bomb.getvalue(), b"", picture("upper")[:40]):
        body = {"model": "image-classification", "inputs": base64.b64encode(content).decode()}
        answer = server.post("/api/classify", body)
        assert answer.status_code == 400, answer.text
        assert "image" in answer.json()["error"] or "pixels" in answer.json()["error"]
    answer = server.post("/api/classify", {"model": "image-classification", "inputs": "not base64!"})
    assert answer.status_code == 400


def test_one_input_is_answered_like_one_of_several(server: Server) -> None:
    alone = server.ask("/api/classify", {"model": "classification", "inputs": TEXTS[0]})
    several = server.ask("/api/classify", {"model": "classification", "inputs": TEXTS})
    assert_equal(alone["results"], several["results"][:1])


def test_one_bad_input_stops_no_other(server: Server, models: dict[str, Path], run: Run) -> None:
    inputs = ["the [MASK] is over", "there is no mask", "[MASK] rain"]
    found = server.ask("/api/fill", {"inputs": inputs})["results"]
    assert found[1]["text"] == inputs[1]
    assert "[MASK]" in found[1]["error"]
    assert [len(found[number]["masks"]) for number in (0, 2)] == [1, 1]
    alone = server.post("/api/fill", {"inputs": "there is no mask"})
    assert alone.status_code == 400
    assert alone.json()["error"] == found[1]["error"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_of_http_are_those_of_the_command_line(server: Server, verb: str) -> None:
    from dataclasses import fields

    schemas = server.http.get("/openapi.json").json()
    body = schemas["paths"][f"/api/{verb}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" in body:
        body = schemas["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    assert set(body["properties"]) == {"model", "inputs", *(one.name for one in fields(VERBS[verb].options))}
    for one in fields(VERBS[verb].options):
        assert body["properties"][one.name]["description"] == one.metadata["about"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/translate", {}, 422, "inputs"),
        ("/api/translate", {"inputs": "1 2", "beam": 0}, 422, "beam"),
        ("/api/translate", {"inputs": "1 2", "beam": 1000}, 400, "16"),
        ("/api/translate", {"inputs": "1 2", "nonsense": 1}, 422, "nonsense"),
        ("/api/translate", {"inputs": 7}, 422, "inputs"),
        ("/api/translate", {"inputs": []}, 422, "empty"),
        ("/api/translate", {"inputs": "1 2", "model": "nobody"}, 404, "en-de"),
        ("/api/translate", {"inputs": "1 2", "model": "tagging"}, 400, "tagger"),
        ("/api/translate", {"inputs": ["1"] * 251}, 413, "250"),
        ("/api/translate", {"inputs": "1 " * 2600}, 413, "5,000"),
        ("/api/generate", {"inputs": "x", "length": 401}, 400, "400"),
        ("/api/generate", {"inputs": "x", "count": 251}, 400, "250"),
        ("/api/generate", {"inputs": "x", "beam": 2, "count": 2}, 400, "sampling"),
        ("/api/nothing", {"inputs": "x"}, 404, "/docs"),
    ],
)
def test_refusals_are_sentences(server: Server, path: str, body: Any, status: int, says: str) -> None:
    answer = server.post(path, body)
    assert answer.status_code == status, answer.text
    assert says in answer.json()["error"]
    assert "Traceback" not in answer.text


def test_a_body_that_is_no_json_or_has_no_text_is_refused(server: Server) -> None:
    for path in ("/api/translate", "/api/classify", "/translate", "/v1/completions", "/embed"):
        for content in (
            b"{",
            b"\xff\xfe",
            b'{"inputs": "\\ud800", "q": "\\ud800", "prompt": "\\ud800"}',
            b"[" * 100_000,
            b"null",
            b"3",
        ):
            answer = server.http.post(path, content=content, headers={"Content-Type": "application/json"})
            assert 400 <= answer.status_code < 500, (path, content[:20], answer.text)
            assert answer.json()["error"]


def test_the_models_are_listed_with_what_they_can_do(server: Server, models: dict[str, Path]) -> None:
    found = {model["name"]: model for model in server.http.get("/api/models").json()["models"]}
    assert list(found) == list(models)
    assert found["en-de"]["verbs"] == ["translate"]
    assert (found["en-de"]["source_language"], found["en-de"]["target_language"]) == ("en", "de")
    assert "embed" in found["classification"]["verbs"]
