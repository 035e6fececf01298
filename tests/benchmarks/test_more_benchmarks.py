"""The benchmarks large_corpus, cost, time_to_quality, ablations and help_pages, with tiny settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from test_benchmarks import printed_by, run_script, whole, write_captions

from ablations import AS_SHIPPED, VARIANTS, changes, changes_of, saved_rows
from cost import USUAL, RandomPairs, recipe_of
from heedful.data.batches import Position
from heedful.models import build_model
from heedful.recipes import load_recipe
from help_pages import divide, pairs_of_pages
from large_corpus import Course, waiting, write_corpus
from time_to_quality import times_of

TINY = "model.layers=1 model.d_model=16 model.d_ff=16 model.heads=2 tokenizer.size=300 training.workers=1".split()


@whole
def test_a_large_and_a_small_corpus_are_measured(tmp_path: Path) -> None:
    quick = (
        "--pairs",
        "3000",
        "--small",
        "1000",
        "--steps",
        "2",
        "--workers",
        "1",
        "--batch-tokens",
        "200",
        "--vocabulary",
        "500",
    )
    printed, summary = run_script("large_corpus", "--folder", tmp_path / "large", *quick)
    small, large = summary["corpora"]["1000"], summary["corpora"]["3000"]
    assert large["text_bytes"] > 2.5 * small["text_bytes"]
    (process,) = large["processes"]
    assert 50e6 < process["own"] < process["resident"]
    assert large["preparation_seconds"] > 0
    assert 0 < large["second_start_seconds"] < 120
    assert 0 <= large["waiting_share"] <= 1
    assert "| restart to its first step, s |" in printed


@whole
def test_cost_is_measured_by_shape() -> None:
    _, summary = run_script("cost", "--vary", "batch tokens", "--values", "64", "1024", "--steps", "1")
    small, large = summary["rows"]
    assert (small["varied"], small["value"], large["value"]) == ("batch tokens", 64, 1024)
    assert large["parameters"] == small["parameters"]
    assert large["flops_per_token"] == small["flops_per_token"] > 6 * small["parameters"] / 2
    assert large["seconds_per_step"] > small["seconds_per_step"]
    assert all(0 < row["peak_bytes_beyond_start"] < row["peak_bytes"] for row in summary["rows"])


@whole
def test_ablations_are_saved_one_by_one_and_can_be_resumed(tmp_path: Path) -> None:
    write_captions(tmp_path)
    output = tmp_path / "ablations.txt"
    job: list[str | Path] = ["--data", tmp_path, "--recipe", "multi30k", "--steps", "2", "--output", output, "--set", *TINY]
    _, first = run_script("ablations", *job, "--only", AS_SHIPPED)
    assert list(first["variants"]) == [AS_SHIPPED]
    lines = output.read_text(encoding="utf-8").splitlines()
    cut = [line for line in lines if line.startswith('{"variant"')] + ['{"variant": "post-']  # as a kill would leave it
    output.write_text("\n".join(cut), encoding="utf-8")
    printed, summary = run_script("ablations", *job, "--only", AS_SHIPPED, "post-norm", "--resume")
    assert summary["variants"][AS_SHIPPED] == first["variants"][AS_SHIPPED]  # equal times too: it was not trained again
    assert summary["variants"]["post-norm"]["changed"] == {"model.norm": ["pre", "post"]}
    assert "| post-norm | model.norm pre → post |" in printed


def test_a_generated_corpus_is_the_same_every_time_and_can_be_learned(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        write_corpus(folder, 2000)
    for side in ("source", "target"):
        assert (tmp_path / "one" / f"2000.{side}").read_bytes() == (tmp_path / "two" / f"2000.{side}").read_bytes()
    sources, targets = (
        [line.split() for line in (tmp_path / "one" / f"2000.{side}").read_text().splitlines()] for side in ("source", "target")
    )
    assert len(sources) == len(targets) == 2000
    assert [len(words) for words in sources] == [len(words) for words in targets]
    # A word of the source has one translation, which is its mirror image, syllable by syllable.
    mirrored = [["".join(word[i : i + 2][::-1] for i in range(0, len(word), 2)) for word in words] for words in sources]
    assert [sorted(words) for words in mirrored] == [sorted(words) for words in targets]
    assert mirrored != targets  # some words swap places
    counts = Counter(word for words in sources for word in words).most_common()
    assert counts[0][1] > 20 * counts[len(counts) // 2][1]


def test_memory_is_measured_for_a_process_and_its_children() -> None:
    course = Course(started=0.0)
    begun = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(begun, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # before it has begun, it is a copy of this process
        course.look(os.getpid(), ready=True)
        child.communicate(b"\n")
    here, *others = course.training
    assert here.own > 50e6 > others[0].own
    assert not course.preparing.own


def test_waiting_ignores_the_first_step() -> None:
    rows = [{"waiting_for_data": 0.9, "seconds_per_step": 10.0}] + [{"waiting_for_data": 0.5, "seconds_per_step": 2.0}] * 3
    assert waiting(rows) == {"waiting_share": 0.5, "longest_wait": 1.0, "seconds_per_step": 2.0}


def test_random_pairs_have_the_requested_shape_and_no_padding() -> None:
    shape = {**USUAL, "batch tokens": 64, "width": 64, "depth": 2, "vocabulary": 100, "length": 16}
    task = RandomPairs(recipe_of(shape), shape)
    _, batch = next(task.batches(Position(), 0, 1))
    assert batch.source.shape == batch.target_in.shape == (4, 16)
    assert bool(batch.source_mask.all())
    assert bool(batch.target_mask.all())
    model = build_model(task.config).eval()
    assert (model.config.layers, model.config.depth, model.config.d_model, model.config.target_vocab) == (2, 2, 64, 100)
    with torch.no_grad():
        assert torch.isfinite(task.loss(model, batch)[0])


def write_run(folder: Path, scores: dict[int, float]) -> Path:
    rows = [{"kind": "train", "step": step, "seconds": 0.6 * step} for step in range(100, 401, 100)]
    rows += [{"kind": "valid", "step": step, "bleu": bleu, "bleu_signature": "s"} for step, bleu in scores.items()]
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    recipe = load_recipe("multi30k", ["data.source=a.tsv", "training.workers=2"])
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return folder


def test_time_to_quality_is_that_of_the_first_validation_that_is_good_enough(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {100: 20.0, 150: 36.0, 300: 35.0, 400: 40.5})
    printed, summary = run_script("time_to_quality", run)
    found = summary["runs"][str(run)]
    assert found["reached"] == {
        "35": {"step": 150, "minutes": 1.5},
        "38": {"step": 400, "minutes": 4.0},
        "40": {"step": 400, "minutes": 4.0},
        "41": None,
    }
    assert "| 41 BLEU | not reached |" in printed
    assert "greedy" in printed
    with pytest.raises(SystemExit, match="no validation with a BLEU"):
        times_of(write_run(tmp_path / "other", {}), [35.0])


def test_every_variant_but_the_first_changes_the_recipe() -> None:
    shipped = load_recipe("multi30k", ["data.source=a.tsv"])
    assert changes(shipped, shipped) == {}
    assert changes(shipped, load_recipe("multi30k", ["data.source=a.tsv", "model.dropout=0.1"])) == {"model.dropout": [0.3, 0.1]}
    given = ["data.source=a.tsv"]
    found = changes_of("multi30k", given, list(VARIANTS))
    assert {name for name, changed in found.items() if not changed} == {AS_SHIPPED}
    assert {"R-Drop", "no average of checkpoints"} <= set(VARIANTS) - set(found)


def test_rows_of_another_job_are_refused(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    row = {"variant": AS_SHIPPED, "job": {"recipe": "a"}, "changed": {}}
    output.write_text(f"2 cores\n{json.dumps(row)}\n", encoding="utf-8")
    assert saved_rows(output, {"recipe": "a"}, {AS_SHIPPED: {}}) == {AS_SHIPPED: row}
    assert saved_rows(tmp_path / "missing", {}, {}) == {}
    with pytest.raises(SystemExit, match="other settings"):
        saved_rows(output, {"recipe": "b"}, {})


def test_paragraphs_of_two_languages_are_paired_by_their_names(tmp_path: Path) -> None:
    pages = {
        "en/a/1.html": "<h1 id=x>Borders and <b>lines</b></h1><p>menu<p id=one>Saves\n the &amp; file.</p>x<p id=code>PRINT</p>",
        "fr/a/1.html": "<p id=code>PRINT</p><p id=one>Enregistre le &amp; fichier.</p><h1 id=x>Bordures <b>et</b> lignes</h1>",
        "en/2.html": "<p id=one>Opens it.</p><p id=long>one two three four five six</p><p id=lost>Lost</p>",
        "fr/2.html": "<p id=one>L'ouvre.</p><p id=long>court</p>",
        "en/3.html": "<p id=one>Only here</p>",
    }
    for name, page in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(page, encoding="utf-8")
    assert pairs_of_pages(tmp_path / "en", tmp_path / "fr", 5) == [
        [("Opens it.", "L'ouvre.")],
        [("Borders and lines", "Bordures et lignes"), ("Saves the & file.", "Enregistre le & fichier.")],
    ]


def test_held_out_paragraphs_are_on_no_training_page() -> None:
    pages = [[(f"own {page}", "a"), (f"common {page // 3}", "b")] for page in range(100)]
    parts = divide(pages)
    sources = {name: [source for source, _ in pairs] for name, pairs in parts.items()}
    together = [source for found in sources.values() for source in found]
    assert len(together) == len(set(together)) == 100 + 34  # no pair is lost or in two splits
    assert {f"own {page}" for page in range(100)} < set(together)
    assert [len([source for source in sources[name] if "own" in source]) for name in ("train", "val", "test")] == [90, 5, 5]


@whole
def test_what_plain_text_adds_is_measured(tmp_path: Path) -> None:
    write_captions(tmp_path)
    sizes = ("--pairs", "100", "--plain", "90", "--steps", "9", "--reverse-steps", "2")
    printed = printed_by("monolingual", tmp_path, tmp_path / "work", *sizes, "--ways", "pairs", "greedy tagged", "two models")
    assert [line.split(" |")[0] for line in printed.splitlines() if line.startswith("| ")][2:] == [
        "| pairs", "| greedy tagged", "| two models",
    ]  # fmt: skip
