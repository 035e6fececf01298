"""Every benchmark end to end with tiny settings, and the code that makes the comparisons fair."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from attention_matters import JOBS, MODELS, draw, length_ranges, model_overrides, parameters_of, spread
from heedful.data.collation import Batch, SpecialIds, collate
from heedful.models import build_model
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.recipes import load_recipe
from heedful.runtime.screen import Silence
from heedful.tasks.translation import TranslationTask
from measuring import added_up, beside_peers, medians, memory_with_children, resident_bytes, with_children
from peers import PEERS, Peer, loss_of, missing_modules
from peers import parameters_of as learned_by
from train_speed import check_alike, flops_per_token, ratio

FOLDER = Path(__file__).parents[2] / "benchmarks"
WHOLE = "HEEDFUL_BENCHMARKS"
# Most of the time goes into starting two to six processes each: three minutes in total on a busy machine.
whole = pytest.mark.skipif(WHOLE not in os.environ, reason=f"whole benchmarks are slow; {WHOLE}=1 runs them too")
WORDS = "a man dog woman boy in the park plays reads runs with red blue ball".split()


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12)))


def printed_by(name: str, *arguments: str | Path) -> str:
    """The output of a benchmark run in its own process."""
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script(name: str, *arguments: str | Path) -> tuple[str, dict[str, Any]]:
    """The output of a benchmark, and its machine-readable last line."""
    printed = printed_by(name, *arguments)
    return printed, json.loads(printed.splitlines()[-1])


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
    rng, text, output = random.Random(1), tmp_path / "text.txt.gz", tmp_path / "output.txt"
    text.write_bytes(gzip.compress("".join(sentence(rng) + "\n" for _ in range(200)).encode()))
    quick = ("--steps", "4", "--rounds", "1", "--workers", "1", "--threads", "1")
    printed, summary = run_script("language_model", "--data", text, *quick, "--output", output)
    assert_engines_are_alike(summary, "loss")
    assert summary["engines"]["heedful, 1 worker"]["loss"] == pytest.approx(
        summary["engines"]["transformers GPT-2, 1 thread"]["loss"], abs=0.5
    )  # both have barely begun to learn, so similar losses mean that they are measured in the same way
    assert output.read_text(encoding="utf-8") == printed
    assert "these speeds are unreliable" in printed  # OMP_NUM_THREADS is set


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
    model, rng = tmp_path / "bert", random.Random(1)
    model.mkdir()
    (model / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    transformers.BertTokenizerFast(vocab=str(model / "vocab.txt")).save_pretrained(model)
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(model)
    for split, count in {"train": 64, "dev": 16}.items():
        rows = [f"{sentence(rng)}\t{number % 2}\n" for number in range(count)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows), encoding="utf-8")
    quick = ("--steps", "2", "--rounds", "1", "--workers", "1", "--threads", "1")
    _, summary = run_script("fine_tuning", "--data", tmp_path, "--model", model, *quick)
    assert_engines_are_alike(summary, "accuracy")
    assert len(summary["engines"]) == 3


def write_captions(folder: Path) -> None:
    rng = random.Random(1)
    for split, count in {"train": 200, "val": 6, "test_2016_flickr": 20}.items():
        for language in ("en", "de"):
            lines = "".join(sentence(rng) + "\n" for _ in range(count))
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")


@whole
def test_the_attention_benchmark_scores_three_models_of_equal_size_by_length(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib; pip install 'heedful[bench]'")
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


def test_ranges_contain_every_length_once() -> None:
    lengths = [3, 3, 3, 3, 3, 3, 4, 5, 9, 12]
    ranges = length_ranges(lengths, 5)
    assert ranges[0] == (3, 3)  # one very frequent length replaces several ranges
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
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib; pip install 'heedful[bench]'")
    rows = {name: {"parameters": 1_000_000, "by_length": [50.0, 40.0 - n]} for n, name in enumerate(MODELS)}
    jobs = {name: {"minutes": 1.0, "ranges": [[1, 4], [5, 5]], "models": rows} for name in JOBS}
    draw({"jobs": jobs}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_speeds_are_reported_relative_to_the_fastest_peer() -> None:
    assert beside_peers({"heedful": {"rate": 6.0}, "slow": {"rate": 2.0}, "fast": {"rate": 4.0}})["heedful"] == 1.5
    assert medians([{"rate": 1.0}, {"rate": 9.0}, {"rate": 2.0}]) == {"rate": 2.0}


@whole
def test_the_speed_benchmark_compares_equal_work(tmp_path: Path) -> None:
    write_captions(tmp_path)
    output = tmp_path / "output.txt"
    quick = (
        "--sizes", "tiny", "--rounds", "1", "--steps", "4", "--batch-tokens", "256", "--workers", "1",
        "--precisions", "float32", "bf16",
    )  # fmt: skip
    printed = printed_by("train_speed", "--data", tmp_path, *quick, "--output", output)
    assert output.read_text(encoding="utf-8") == printed
    *_, summary, exact, quick_line, last = printed.splitlines()
    found = json.loads(summary)["sizes"]["tiny"]["engines"]
    numbers = r"ratio tiny=\d+\.\d\d peak tiny=\d+\.\d\d"
    assert re.fullmatch(f"float32: {numbers}", exact)
    assert re.fullmatch(f"bf16: {numbers}", quick_line)
    ours, share = found["heedful bf16"]["ratio"], found["heedful float32"]["peak"]
    assert last == f"ratio tiny={ours:.2f} peak tiny={share:.2f}"
    names = ["heedful", *(name for name in PEERS if not missing_modules(name))]
    assert list(found) == [f"{name} {precision}" for precision in ("float32", "bf16") for name in names]
    assert len({row["tokens"] for row in found.values()}) == 1
    assert all(row["rate"] > 0 and row["megabytes"] > 100 for row in found.values())
    assert all(np.isfinite(row["first_loss"]) for name, row in found.items() if not name.startswith("heedful"))
    for name, peer in PEERS.items():
        assert (f"{name} bf16" in found) != bool(re.search(rf"^\| {peer.title} \| skipped", printed, re.MULTILINE))
    with pytest.raises(AssertionError, match="needs heedful and a peer"):
        printed_by("train_speed", "--data", tmp_path, "--engines", "heedful")


SPECIAL = SpecialIds(source_pad=0, source_eos=3, target_pad=0, target_bos=2, target_eos=3)


def small_peer(name: str, dropout: float = 0.0) -> tuple[Peer, Seq2SeqConfig]:
    if missing := missing_modules(name):
        pytest.skip(f"{', '.join(missing)} not installed")
    torch.manual_seed(1)
    config = Seq2SeqConfig(300, 300, layers=2, d_model=64, d_ff=128, heads=4, dropout=dropout)
    return PEERS[name].build(config, SPECIAL).train(), config


def small_batch() -> Batch:
    rng = np.random.default_rng(1)
    rows = [rng.integers(4, 300, length, dtype=np.uint32) for length in (5, 9, 3, 7, 8, 4)]
    return collate(rows[:3], rows[3:], SPECIAL)


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_as_large_as_heedful_and_learns(name: str) -> None:
    peer, config = small_peer(name, dropout=0.1)
    assert learned_by(peer) == pytest.approx(learned_by(build_model(config)), rel=0.02)  # biases are more of a small model
    assert any(peer.output_weight is parameter for parameter in peer.parameters())
    optimizer = torch.optim.Adam(peer.parameters(), lr=0.003)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = loss_of(peer, small_batch())
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(np.isfinite(losses))
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_ignores_padding_and_does_not_look_ahead(name: str) -> None:
    (peer, _), batch = small_peer(name), small_batch()
    longer = Batch(*(pad(getattr(batch, field), (0, 3)) for field in Batch.__dataclass_fields__))
    assert float(loss_of(peer, longer).detach()) == pytest.approx(float(loss_of(peer, batch).detach()), abs=1e-5)
    last = replace(batch, target_in=batch.target_in.clone())
    last.target_in[:, -1] = 7
    before, after = peer(batch).detach(), peer(last).detach()
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_applies_dropout_only_to_embeddings_and_residuals(name: str) -> None:
    peer, config = small_peer(name, dropout=0.1)
    drawn: list[tuple[int, ...]] = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is torch.nn.functional.dropout and not torch.equal(result, args[0]):
                drawn.append(tuple(args[0].shape))
            return result

    with Watch():
        peer(small_batch())
    assert len(drawn) == 2 + 2 * config.layers + 3 * config.depth
    assert {shape[-1] for shape in drawn} == {config.d_model}


def test_engines_that_do_different_work_are_detected() -> None:
    same = {"tokens": 100.0, "parameters": 1000.0}
    ours, theirs, later = ((name, "float32") for name in ("heedful", "peer", "later"))
    check_alike({ours: [same], theirs: [{**same, "parameters": 1009.0}], later: []})
    with pytest.raises(SystemExit, match="peer 1,020"):
        check_alike({ours: [same], theirs: [{**same, "parameters": 1020.0}]})
    with pytest.raises(SystemExit, match="peer on 90"):
        check_alike({ours: [same], theirs: [{**same, "tokens": 90.0}]})


def test_heedful_is_compared_per_precision_and_in_its_default_precision() -> None:
    exact = {("heedful", "float32"): 6.0, ("slow", "float32"): 2.0, ("fast", "float32"): 4.0}
    quick = {("heedful", "bf16"): 16.0, ("slow", "bf16"): 8.0, ("fast", "bf16"): 3.0}
    assert ratio(exact) == 1.5
    assert [ratio({**exact, **quick}, precision) for precision in ("float32", "bf16", None)] == [1.5, 2.0, 2.0]
    assert ratio({**exact, ("heedful", "bf16"): 12.0, ("fast", "bf16"): 3.0}) == 3.0


def test_flops_are_counted_without_padding() -> None:
    config = Seq2SeqConfig(10, 10, layers=1, d_model=4, d_ff=8, heads=2)
    batch = collate([np.array([4, 5], np.uint32)], [np.array([4], np.uint32)], SPECIAL)  # with an end: 3 and 2 tokens
    attention, feed = 2 * 4 * 4 * 4, 2 * 2 * 4 * 8  # of a token
    encoder = 3 * (attention + feed) + 4 * 3 * 3 * 4
    decoder = 2 * (attention + feed) + 2 * 2 * 2 * 4 + (2 + 3) * attention / 2 + 4 * 2 * 3 * 4
    assert flops_per_token(config, [batch]) == 3 * (encoder + decoder + 2 * 2 * 4 * 10) / 2


def test_memory_that_processes_share_counts_once() -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("this system does not tell what processes share")
    size = 64_000_000
    code = f"""
import mmap, os, sys
shared = mmap.mmap(-1, {size})
shared.write(b"x" * {size})
if not os.fork():
    shared[::4096]  # so that the child, too, has every page
    print("ready", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        family = with_children(process.pid)
        assert len(family) == 2
        assert size < memory_with_children(process.pid) < 1.8 * size < added_up(resident_bytes, family)
        process.communicate()
