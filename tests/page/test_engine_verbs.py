"""Every verb answers in the browser what it answers in Python, with the same weights: trained models of every job."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from node_engine import Call, ask_engine
from random_models import fill_at_random, round_weights

from conftest import Trained, sentences, squad
from heedful.jobs.registry import VERBS
from heedful.page.model_file import pack_model
from heedful.pipelines import load_pipeline
from heedful.pipelines.pipeline import AnyPipeline

NASTY = ["", "  ", "日本語 🦊", "a\u0301 ß <s> </s>", "1 2 3 \n 4"]


def rounded(run: Path, at_random: bool = False) -> AnyPipeline:
    """The model of a run with the weights that its file has; `at_random`, with others, which say more than a trained few."""
    pipeline: AnyPipeline = load_pipeline(run)
    if at_random:
        torch.manual_seed(1)
        fill_at_random(pipeline.model)
    else:
        round_weights(pipeline.model)
    return pipeline


def check_alike(found: Any, wanted: Any, what: object) -> None:
    """The same objects, where the engine may say more, and numbers may differ by rounding."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            check_alike(found[key], value, (what, key))
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), what
        for one, other in zip(found, wanted, strict=True):
            check_alike(one, other, what)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=2e-4, rel=2e-4), what
    else:
        assert found == wanted, what


def check_verb(pipeline: AnyPipeline, verb: str, inputs: list[Any], options: dict[str, Any], folder: Path) -> None:
    asked: list[Call] = [[verb, {"question": i[0], "passage": i[1]} if isinstance(i, tuple) else i, options] for i in inputs]
    answers = ask_engine(folder, asked, pack_model(pipeline, "tried"))
    for given, answer in zip(inputs, answers, strict=True):
        assert isinstance(answer, dict), answer
        (result,) = pipeline.run([given], VERBS[verb].options.of(**options))
        check_alike(answer, result.as_json(), (verb, given, options))


@pytest.mark.parametrize(
    "options",
    [{"beam": 1}, {"beam": 3, "n_best": 2}, {"beam": 5, "length_penalty": 1.4}, {"sample": True, "seed": 7, "top_k": 5}],
)
@pytest.mark.parametrize("at_random", [False, True])
def test_translations(trained: Trained, options: dict[str, Any], at_random: bool, tmp_path: Path) -> None:
    pipeline = rounded(trained("translation"), at_random)
    rng = random.Random(2)
    lines = [" ".join(str(rng.randrange(10)) for _ in range(rng.randint(1, 8))) for _ in range(12)]
    check_verb(pipeline, "translate", [*lines, *NASTY], options, tmp_path)


@pytest.mark.parametrize("options", [{}, {"beam": 1}])
def test_summaries(trained: Trained, options: dict[str, Any], tmp_path: Path) -> None:
    check_verb(rounded(trained("summarization")), "summarize", [*sentences(6, 3), *NASTY[2:]], options, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1, "length": 30},
        {"beam": 3, "length": 10},
        {"length": 40, "seed": 3, "temperature": 0.7, "top_p": 0.8},
        {"length": 20, "seed": 12345678901, "top_k": 3},
    ],
)
@pytest.mark.parametrize("at_random", [False, True])
def test_continuations(trained: Trained, options: dict[str, Any], at_random: bool, tmp_path: Path) -> None:
    pipeline = rounded(trained("language-model"), at_random)
    check_verb(pipeline, "generate", [*sentences(4, 4), " ".join(sentences(6, 5)), *NASTY], options, tmp_path)


def test_fillings(trained: Trained, tmp_path: Path) -> None:
    texts = ["the [MASK] is over 7 rivers", "[MASK] sun <mask> [MASK].", "the [MASK]"]
    check_verb(rounded(trained("bert-pretraining")), "fill", texts, {"top": 4}, tmp_path)


def test_classes(trained: Trained, tmp_path: Path) -> None:
    check_verb(rounded(trained("classification")), "classify", [*sentences(6, 3), *NASTY], {"top": 3}, tmp_path)


def test_tags(trained: Trained, tmp_path: Path) -> None:
    texts = ["on 7 May 1984 .", "on\u20037 日本 May", " ".join(sentences(9, 1)), *NASTY]
    check_verb(rounded(trained("tagging"), at_random=True), "tag", texts, {}, tmp_path)


def test_answers(trained: Trained, tmp_path: Path) -> None:
    pipeline = rounded(trained("question-answering"), at_random=True)
    found: Any = squad(6, 3)["data"]
    asked = [(p["qas"][0]["question"], p["context"]) for p in found[0]["paragraphs"]]
    long = (asked[0][0], " ".join(passage for _, passage in asked))
    check_verb(pipeline, "answer", [*asked, long, ("Who?", "🦊 wohnt in Köln 東京 に住む"), ("?", "")], {}, tmp_path)


@pytest.mark.parametrize("task", ["classification", "bert-pretraining"])
def test_vectors(trained: Trained, task: str, tmp_path: Path) -> None:
    from heedful.pipelines.load import load_for_verb

    texts = [*sentences(3, 3), *NASTY]
    pipeline = rounded(trained(task))
    answers = ask_engine(tmp_path, [["embed", text] for text in texts], pack_model(pipeline, "tried"))
    embedder = load_for_verb("embed", trained(task))
    round_weights(embedder.model)
    for text, answer in zip(texts, answers, strict=True):
        check_alike(answer, embedder.run([text])[0].as_json(), text)


def test_images(trained: Trained, tmp_path: Path) -> None:
    from PIL import Image

    pipeline = rounded(trained("image-classification"), at_random=True)
    rng = random.Random(5)
    calls: list[Call] = []
    results = []
    for number, (width, height, mode) in enumerate(
        [(8, 8, "L"), (31, 17, "RGB"), (5, 9, "RGB"), (200, 301, "RGB"), (40, 40, "RGBA"), (7, 7, "LA"), (1, 1, "RGB")]
    ):
        image = Image.new("RGBA", (width, height))
        image.putdata([tuple(rng.randrange(256) for _ in range(4)) for _ in range(width * height)])
        if mode not in ("RGBA", "LA"):
            image.putalpha(255)
        image.convert(mode).save(tmp_path / f"{number}.png")
        pixels = Image.open(tmp_path / f"{number}.png").convert("RGBA")
        calls.append(["classify", {"width": width, "height": height, "data": list(pixels.tobytes())}, {"top": 2}])
        results.append(pipeline.run([tmp_path / f"{number}.png"], VERBS["classify"].options.of(top=2))[0].as_json())
    for answer, result in zip(ask_engine(tmp_path, calls, pack_model(pipeline, "tried")), results, strict=True):
        assert isinstance(answer, dict), answer
        for one, other in zip(answer["labels"], result["labels"], strict=True):
            # A transparent pixel may be rounded differently when it is laid over white.
            assert one["probability"] == pytest.approx(other["probability"], abs=5e-3)


def test_random_numbers_are_those_of_python(tmp_path: Path) -> None:
    seeds = ["1/0", "über 42/17", "", "x" * 300, "123456789012345678901234567890"]
    body = """
      const { PythonRandom } = await load("python_random.js");
      return given[0].map((seed) => {
        const rng = new PythonRandom(seed);
        return Array.from({ length: 700 }, () => rng.random());
      });
    """
    (found,) = ask_engine(tmp_path, [[body, seeds]])
    for seed, numbers in zip(seeds, found, strict=True):
        rng = random.Random(seed)
        assert numbers == [rng.random() for _ in range(700)]


def test_wrong_requests_are_told_in_words(trained: Trained, tmp_path: Path) -> None:
    calls: list[Call] = [
        ["classify", "text"],
        ["translate", "1 2 " * 3000],
        ["startWriter", "1 2", {"interventions": {"divisor": -1}}],
        ["useCheckpoint", 3],
        ["translate", "1 2", {"sample": True, "temperature": 0}],
    ]
    answers = ask_engine(tmp_path, calls, pack_model(rounded(trained("translation")), "digits"))
    assert answers[0] == "InputError: digits cannot classify; it can translate"
    assert "is too long" in answers[1]
    assert "above 0" in answers[2]
    assert answers[3].startswith("InputError: there is no checkpoint 3")
    assert "temperature must be above 0" in answers[4]
