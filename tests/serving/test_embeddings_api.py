"""The API of text-embeddings-inference, also through Hugging Face's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servers import Server, Start

from conftest import sentences
from heedful.pipelines.classifier import Classifier
from heedful.pipelines.load import load_for_verb

TEXTS = sentences(3)


def test_embed(server: Server, models: dict[str, Path]) -> None:
    expected = load_for_verb("embed", models["bert-pretraining"]).embed(TEXTS)  # type: ignore[attr-defined]
    body = {"inputs": TEXTS, "model": "bert-pretraining"}
    assert np.allclose(server.ask("/embed", body), expected, atol=1e-5)
    assert np.allclose(
        server.ask("/embed", {**body, "inputs": TEXTS[0], "normalize": True, "truncate": True}), expected[:1], atol=1e-5
    )


def test_predict_of_one_and_of_several(server: Server, models: dict[str, Path]) -> None:
    classifier = Classifier.load(models["classification"])
    expected = classifier.classify(TEXTS, top=len(classifier.labels))
    alone = server.ask("/predict", {"inputs": TEXTS[0], "model": "classification"})
    assert [row["label"] for row in alone] == [label for label, _ in expected[0]]
    assert [row["score"] for row in alone] == pytest.approx([p for _, p in expected[0]], abs=1e-5)
    several = server.ask("/predict", {"inputs": [[text] for text in TEXTS], "model": "classification"})
    assert [[row["label"] for row in rows] for rows in several] == [[label for label, _ in labels] for labels in expected]


def test_tokenize(server: Server, models: dict[str, Path]) -> None:
    tokenizer = Classifier.load(models["classification"]).tokenizer
    (rows,) = server.ask("/tokenize", {"inputs": TEXTS[0], "model": "classification"})
    assert (rows[0]["special"], rows[-1]["special"]) == (True, True)
    inner = rows[1:-1]
    assert [row["id"] for row in inner] == tokenizer.encode(TEXTS[0])
    assert "".join(TEXTS[0][row["start"] : row["stop"]] for row in inner).replace(" ", "") == TEXTS[0].replace(" ", "")
    plain = server.ask("/tokenize", {"inputs": [TEXTS[0]], "model": "classification", "add_special_tokens": False})
    assert plain == [inner]


def test_errors_have_its_shape(server: Server) -> None:
    answer = server.post("/embed", {"inputs": []})
    assert answer.status_code == 422
    assert answer.json() == {"error": "inputs is empty", "error_type": "validation"}


def test_a_text_that_is_too_long_is_cut_or_refused(server: Server) -> None:
    longest = server.http.get("/info").json()["max_input_length"]
    for path, text in (("/embed", "sun " * longest), ("/predict", "sun " * longest)):
        assert server.post(path, {"inputs": text}).status_code == 200
        assert server.post(path, {"inputs": "sun", "truncate": False}).status_code == 200
        answer = server.post(path, {"inputs": text, "truncate": False})
        assert (answer.status_code, answer.json()["error_type"]) == (413, "validation")


def test_predict_with_raw_scores(server: Server) -> None:
    body = {"inputs": [TEXTS[0]], "model": "classification"}
    probabilities, scores = (server.ask("/predict", {**body, "raw_scores": raw}) for raw in (False, True))
    assert [row["label"] for row in scores] == [row["label"] for row in probabilities]
    powers = np.exp([row["score"] for row in scores])
    assert np.allclose(powers / powers.sum(), [row["score"] for row in probabilities], atol=1e-5)


def test_hugging_face_s_client(start: Start, models: dict[str, Path]) -> None:
    server = start(models["classification"], "--workers", "1")
    expected = load_for_verb("embed", models["classification"]).embed(TEXTS[0])  # type: ignore[attr-defined]
    script = f"""
import json
from huggingface_hub import InferenceClient
vectors = InferenceClient(model={server.url + "/embed"!r}).feature_extraction({TEXTS[0]!r})
found = InferenceClient(model={server.url!r}).text_classification({TEXTS[0]!r})
print(json.dumps([vectors.tolist(), found[0].label, found[0].score]))"""
    env = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
    vectors, label, score = json.loads(done.stdout)
    assert np.allclose(vectors[0], expected, atol=1e-5)
    best = Classifier.load(models["classification"]).classify(TEXTS[0])[0]
    assert (label, score) == (best.label, pytest.approx(best.probability, abs=1e-5))
    facts = server.http.get("/info").json()
    assert facts["model_id"] == "classification" or facts["model_id"] == models["classification"].parent.name
    assert facts["max_input_length"] > 3
