"""The browser explains a model exactly as `explain` does in Python: for every job, number by number."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_engine import Call, ask_engine
from test_engine_verbs import rounded

from conftest import TASKS, Trained, sentences, squad
from heedful.explain.any_model import explain
from heedful.page.model_file import pack_model

SAME = ("format", "job", "verb", "kind", "output", "beam", "sequences", "candidates", "norms", "lens")


def arrays(value: Any) -> Any:
    """Matrices of the engine as nested lists."""
    if isinstance(value, dict) and set(value) == {"data", "shape"}:
        return np.array([float(one) for one in value["data"]]).reshape(value["shape"]).tolist()
    if isinstance(value, dict):
        return {key: arrays(inner) for key, inner in value.items()}
    return [arrays(inner) for inner in value] if isinstance(value, list) else value


def check_same(found: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        assert set(wanted) <= set(found), where
        for key, value in wanted.items():
            if key != "source":  # a data URI, which the page knows and the engine does not
                check_same(found[key], value, f"{where}.{key}")
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], int | float) and not isinstance(wanted[0], bool):
        assert np.allclose(found, wanted, atol=2e-4, rtol=2e-4), where
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            check_same(one, other, f"{where}[{number}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=2e-4, rel=2e-4), where
    else:
        assert found == wanted, where


def png_bytes() -> tuple[bytes, dict[str, Any]]:
    """An image as a file, and as the engine takes it."""
    from PIL import Image

    image = Image.new("L", (11, 8))
    image.putdata([(37 * number) % 256 for number in range(88)])
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue(), {"width": 11, "height": 8, "data": list(image.convert("RGBA").tobytes())}


def inputs_of(task: str) -> list[tuple[Any, Any, dict[str, Any], dict[str, Any]]]:
    """Inputs for Python and for the engine, with the options of each."""
    text = sentences(1, 9)[0]
    if task == "translation":
        return [
            ("1 2 3", "1 2 3", {"beam": 3}, {"beam": 3}),
            ("1 2 3", "1 2 3", {"beam": 1}, {"beam": 1}),
            ("4 5", "4 5", {"target": "five four"}, {"target": "five four"}),
        ]
    if task == "question-answering":
        found: Any = squad(4, 3)["data"]
        paragraphs = found[0]["paragraphs"]
        question, passage = paragraphs[0]["qas"][0]["question"], " ".join(one["context"] for one in paragraphs)
        return [((question, passage), {"question": question, "passage": passage}, {}, {})]
    if task == "image-classification":
        data, image = png_bytes()
        return [(data, image, {}, {})]
    if task == "bert-pretraining":
        return [("the [MASK] is over 7 rivers", "the [MASK] is over 7 rivers", {}, {}), (text, text, {}, {})]
    if task == "language-model":
        return [
            ("the sun", "the sun", {"length": 6}, {"length": 6}),
            ("", "", {"length": 4, "beam": 2}, {"length": 4, "beam": 2}),
            ("the", "the", {"target": " river is"}, {"target": " river is"}),
        ]
    return [(text, text, {}, {})]


@pytest.mark.parametrize("task", TASKS)
def test_the_explanation_of_every_job_is_pythons(trained: Trained, task: str, tmp_path: Path) -> None:
    pipeline = rounded(trained(task), at_random=task not in ("translation", "summarization", "language-model"))
    tried = inputs_of(task)
    calls: list[Call] = [["run", given, {"candidates": 4, "lens": True, **options}] for _, given, _, options in tried]
    answers = ask_engine(tmp_path, calls, pack_model(pipeline, "tried"))
    for (given, _, options, _), answer in zip(tried, answers, strict=True):
        assert isinstance(answer, dict), answer
        found = arrays(answer)
        asked = given if isinstance(given, tuple) else (given,)
        wanted = explain(pipeline, *asked, model="tried", top=4, **options).as_json()
        for key in SAME:
            check_same(found[key], wanted[key], key)
        assert [one["name"] for one in found["attention"]] == [one["name"] for one in wanted["attention"]]
        for one, other in zip(found["attention"], wanted["attention"], strict=True):
            assert (one["queries"], one["keys"]) == (other["queries"], other["keys"])
            check_same(one["layers"], other["layers"], one["name"])


def test_every_number_on_the_way_fits_together(trained: Trained, tmp_path: Path) -> None:
    """Scores are products over the divisor, weights their softmax, heads the weighted values, and so on to the next layer."""
    pipeline = rounded(trained("translation"))
    (answer,) = ask_engine(tmp_path, [["run", "1 2 3 4", {"trace": True, "beam": 1}]], pack_model(pipeline, "tried"))
    trace = answer["trace"]

    def array(matrix: Any) -> Any:
        return np.array([float(value) for value in matrix["data"]]).reshape(matrix["shape"])

    for name in ("encoder", "decoder"):
        for layer in trace[name]["layers"]:
            own = layer["self"]
            q, k, v = (array(own[key]) for key in "qkv")
            products = q @ k.transpose(0, 2, 1)
            assert np.allclose(array(own["products"]), products, atol=1e-4)
            assert np.allclose(array(own["scores"]), products / own["divisor"], atol=1e-4)
            masked = array(own["masked"])
            weights = np.exp(masked - masked.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            assert np.allclose(array(own["weights"]), weights, atol=1e-5)
            assert np.allclose(array(own["heads"]), weights @ v, atol=1e-4)
            future = np.triu(np.ones(masked.shape[1:], dtype=bool), 1)
            assert np.isneginf(masked[:, future]).all() == (name == "decoder")
            bias = array(own["output"]) - array(own["parts"]).sum(0)
            assert np.allclose(bias, bias[:1], atol=1e-4)  # what the heads do not add is the bias of W_O
        outputs = [array(layer["after"]) for layer in trace[name]["layers"][:-1]]
        inputs = [array(layer["before"]) for layer in trace[name]["layers"][1:]]
        assert all(np.array_equal(one, other) for one, other in zip(outputs, inputs, strict=True))
        embedded = trace[name]["embedding"]
        assert embedded["positions"] is None  # they are rotary: part of the attention
        assert np.array_equal(array(embedded["tokens"]), array(embedded["sum"]))
    assert array(trace["logits"]).shape[0] == len(answer["sequences"]["target"]["tokens"])
