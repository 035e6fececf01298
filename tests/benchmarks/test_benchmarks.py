"""Each benchmark from end to end with tiny settings, and the parts of them that decide what is compared."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from attention_matters import JOBS, MODELS, draw, length_ranges, model_overrides, parameters_of, spread
from heedful.recipes import load_recipe
from heedful.tasks.translation import TranslationTask
from heedful.training.screen import Silence
from measuring import beside_peers, medians

FOLDER = Path(__file__).parents[2] / "benchmarks"
WHOLE = "HEEDFUL_BENCHMARKS"
# Most of their time is that of starting two to six processes each: three minutes in all on a busy machine.
whole = pytest.mark.skipif(WHOLE not in os.environ, reason=f"whole benchmarks are slow; {WHOLE}=1 runs them too")
WORDS = "a man dog woman boy in the park plays reads runs with red blue ball".split()


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(3, 12)))


def run_script(name: str, *arguments: str | Path) -> tuple[str, dict[str, Any]]:
    """A benchmark in a process of its own: what it printed, and its machine-readable last line."""
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stdout.splitlines()[-1])


def assert_engines_are_alike(summary: dict[str, Any], quality: str) -> None:
    """Every engine was measured in full, and all have the same number of parameters."""
    engines = summary["engines"]
    assert len(engines) > 1
    for row in engines.values():
        assert {"parameters", "seconds", "megabytes", quality} <= row.keys()
        assert all(value > 0 for value in (row["seconds"], row["megabytes"], row["parameters"]))
    assert len({row["parameters"] for row in engines.values()}) == 1


@whole
def test_the_language_model_benchmark_compares_equal_models(tmp_path: Path) -> None:
    chance, text, output = random.Random(1), tmp_path / "text.txt.gz", tmp_path / "output.txt"
    text.write_bytes(gzip.compress("".join(sentence(chance) + "\n" for _ in range(200)).encode()))
    quick = ("--steps", "4", "--rounds", "1", "--workers", "1", "--threads", "1")
    printed, summary = run_script("language_model", "--data", text, *quick, "--output", output)
    assert_engines_are_alike(summary, "loss")
    assert summary["engines"]["heedful, 1 worker"]["loss"] == pytest.approx(
        summary["engines"]["transformers GPT-2, 1 thread"]["loss"], abs=0.5
    )  # both have hardly begun to learn, so that their losses tell whether they are measured alike
    assert output.read_text(encoding="utf-8") == printed
    assert "not to be trusted" in printed  # OMP_NUM_THREADS is set


@whole
def test_the_vision_benchmark_compares_equal_models() -> None:
    quick = ("--steps", "4", "--batch", "16", "--rounds", "1", "--workers", "1", "--threads", "1")
    _, summary = run_script("vision", *quick)
    assert_engines_are_alike(summary, "accuracy")
    assert all(row["rate"] > 0 for row in summary["engines"].values())


@whole
def test_the_fine_tuning_benchmark_compares_equal_models(tmp_path: Path) -> None:
    transformers = importlib.import_module("transformers")
    pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")
    model, chance = tmp_path / "bert", random.Random(1)
    model.mkdir()
    (model / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    transformers.BertTokenizerFast(vocab=str(model / "vocab.txt")).save_pretrained(model)
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(model)
    for split, count in {"train": 64, "dev": 16}.items():
        rows = [f"{sentence(chance)}\t{number % 2}\n" for number in range(count)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows), encoding="utf-8")
    quick = ("--steps", "2", "--rounds", "1", "--workers", "1", "--threads", "1")
    _, summary = run_script("fine_tuning", "--data", tmp_path, "--model", model, *quick)
    assert_engines_are_alike(summary, "accuracy")
    assert len(summary["engines"]) == 3


def write_captions(folder: Path) -> None:
    chance = random.Random(1)
    for split, count in {"train": 200, "val": 6, "test_2016_flickr": 20}.items():
        for language in ("en", "de"):
            lines = "".join(sentence(chance) + "\n" for _ in range(count))
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")


@whole
def test_the_attention_benchmark_judges_three_models_of_equal_size_by_length(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_captions(tmp_path)
    quick = ("--jobs", "multi30k", "--minutes", "0.001", "--probe-steps", "4", "--workers", "1")
    plot = tmp_path / "plot.png"
    _, summary = run_script("attention_matters", "--data", tmp_path, *quick, "--plot", plot)
    found = summary["jobs"]["multi30k"]
    assert list(found["models"]) == list(MODELS)
    sizes = [row["parameters"] for row in found["models"].values()]
    assert max(sizes) < 1.02 * min(sizes)
    assert sum(found["counts"]) == 20
    assert all(len(row["by_length"]) == len(found["ranges"]) for row in found["models"].values())
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_recurrent_models_are_as_large_as_the_transformer(tmp_path: Path) -> None:
    given, job = ["data.pairs=300"], JOBS["dates"]
    TranslationTask.prepare(load_recipe(job.recipe, given), tmp_path, Silence())
    wanted = parameters_of(job.recipe, given, tmp_path)
    for name in MODELS:
        settings = model_overrides(job, name, given, tmp_path, 0.002)
        assert parameters_of(job.recipe, [*given, *settings], tmp_path) == pytest.approx(wanted, rel=0.02)
        assert load_recipe(job.recipe, [*given, *settings]).model["dropout"] == 0.0


def test_ranges_hold_every_length_once() -> None:
    lengths = [3, 3, 3, 3, 3, 3, 4, 5, 9, 12]
    ranges = length_ranges(lengths, 5)
    assert ranges[0] == (3, 3)  # one length of more than its part takes the place of several ranges
    assert [sum(low <= n <= high for low, high in ranges) for n in lengths] == [1] * len(lengths)
    assert length_ranges(list(range(1, 11)), 5) == [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)]


def test_labels_keep_their_order_and_distance_inside_the_panel() -> None:
    for places in ({"a": 99.0, "b": 98.9, "c": 20.0}, {"a": 0.0, "b": 0.0, "c": 0.0}, {"a": 50.0, "b": 30.0, "c": 10.0}):
        moved = spread(places, 11.0, 5.0, 99.0)
        ordered = sorted(moved.values())
        assert all(above - below >= 10.99 for below, above in pairwise(ordered))
        assert ordered[0] >= 5.0
        assert ordered[-1] <= 99.0
        assert sorted(moved, key=moved.__getitem__) == sorted(places, key=places.__getitem__)
    assert moved == places


def test_a_plot_can_be_drawn_again_from_an_earlier_summary(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = {name: {"parameters": 1_000_000, "by_length": [50.0, 40.0 - n]} for n, name in enumerate(MODELS)}
    jobs = {name: {"minutes": 1.0, "ranges": [[1, 4], [5, 5]], "models": rows} for name in JOBS}
    draw({"jobs": jobs}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_speeds_are_told_beside_the_fastest_peer() -> None:
    assert beside_peers({"heedful": {"rate": 6.0}, "slow": {"rate": 2.0}, "fast": {"rate": 4.0}})["heedful"] == 1.5
    assert medians([{"rate": 1.0}, {"rate": 9.0}, {"rate": 2.0}]) == {"rate": 2.0}
