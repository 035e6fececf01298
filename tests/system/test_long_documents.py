"""Summarization and classification of long documents with a window: every token is read, none is cut off."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import Command
from heedful.complexity.measure import peak_bytes
from heedful.data.token_store import ParallelStore
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.pipelines import load_pipeline

WORDS = [a + b for a in ("ba", "de", "gi", "ko", "lu") for b in ("na", "pe", "ri", "so", "tu")]
ENDS = ("north", "south", "east", "west")
SMALL = "model.layers=1 model.d_model=16 model.d_ff=16 model.heads=2 model.window=64 training.workers=1 training.steps=2".split()
ONCE = "training.validate_every=2 training.checkpoint_every=2 data.hold_out=2 tokenizer.kind=word tokenizer.size=64".split()
LENGTHS = [600, pytest.param(16_000, marks=pytest.mark.slow)]


def documents(count: int, words: int) -> list[tuple[str, str]]:
    """Documents of this many words, and the last word of each, the only one with the answer."""
    rng = random.Random(words)
    return [(" ".join([*rng.choices(WORDS, k=words - 1), end]), end) for end in (ENDS[number % 4] for number in range(count))]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("words", LENGTHS)
def test_summaries_of_long_documents_are_learned_and_written_without_truncation(
    words: int, heedful: Command, tmp_path: Path
) -> None:
    pairs = documents(8, words)
    data = write(tmp_path / "long.jsonl", [{"document": text, "summary": end} for text, end in pairs])
    run = tmp_path / "run"
    settings = [f"data.max_length={words}", "model.attention_kind=window", "training.batch_tokens=20000", "decoding.max_tokens=5"]
    done = heedful("train", "summarization", f"data.train={data}", *settings, *SMALL, *ONCE, "--run", run)
    assert done.returncode == 0, done.stderr
    assert set(ParallelStore(run / "data").source.lengths) == {words}
    assert "truncated" not in done.stdout
    summarizer = load_pipeline(run / "final")
    assert [len(ids) for ids in summarizer.encode_sources([pairs[0][0]])] == [words]
    lines = tmp_path / "documents.txt"
    lines.write_text("".join(f"{text}\n" for text, _ in pairs), encoding="utf-8")
    written = heedful("summarize", run / "final", "--input", lines, "--beam", "2")
    assert written.returncode == 0, written.stderr
    assert len(written.stdout.splitlines()) == len(pairs)
    assert all(len(line.split()) <= 5 for line in written.stdout.splitlines())
    scored = heedful("evaluate", run / "final", data)
    assert scored.returncode == 0, scored.stderr
    assert (run / "report.html").is_file()
    kept = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = next(row for row in kept if row["kind"] == "valid")["samples"][0]["input"]
    assert len(logged) == 1000 < len(pairs[0][0])  # of every validation only the beginning, so that the file stays small


@pytest.mark.parametrize("words", LENGTHS)
def test_long_documents_are_classified_without_truncation(words: int, heedful: Command, tmp_path: Path) -> None:
    examples = documents(12, words - 2)  # and the two special tokens
    data = write(tmp_path / "long.jsonl", [{"text": text, "label": end} for text, end in examples])
    run = tmp_path / "run"
    settings = [f"data.max_length={words}", f"model.max_positions={words}", "model.attention_kind=longformer"]
    done = heedful("train", "classification", f"data.train={data}", *settings, *SMALL, *ONCE, "training.batch_tokens=20000",
                   "--run", run)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(ParallelStore(run / "data").source.lengths) == {words - 2}
    weights = load_file(run / "final" / "model.safetensors")
    assert weights["embedding.positions.table"].size(0) == words
    lines = tmp_path / "documents.txt"
    lines.write_text("".join(f"{text}\n" for text, _ in examples), encoding="utf-8")
    said = heedful("classify", run / "final", "--input", lines, "--json")
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) == len(examples)
    scored = heedful("evaluate", run / "final", data, "--json")
    assert scored.returncode == 0, scored.stderr


def test_the_end_of_a_document_changes_what_is_said_of_it(heedful: Command, tmp_path: Path) -> None:
    """What is beyond max_length is cut off; what is within it is read to its last word."""
    examples = documents(12, 300)
    data = write(tmp_path / "long.jsonl", [{"text": text, "label": end} for text, end in examples])
    settings = ["data.max_length=302", "model.max_positions=302", "model.attention_kind=longformer"]
    run = tmp_path / "run"
    done = heedful("train", "classification", f"data.train={data}", *settings, *SMALL, *ONCE, "--run", run)
    assert done.returncode == 0, done.stderr
    classifier = load_pipeline(run / "final")
    text = examples[0][0].rsplit(" ", 1)[0]
    found = [classifier.run([f"{text} {end}"])[0].labels[0].probability for end in ENDS[:2]]
    assert found[0] != found[1]


@pytest.mark.parametrize("words", [4000, pytest.param(16_000, marks=pytest.mark.slow)])
def test_training_on_a_long_document_takes_memory_that_grows_with_its_length(words: int) -> None:
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(100, 100, layers=4, d_model=128, d_ff=256, heads=4, attention_kind="window"))

    def peak(length: int) -> int:
        source, target = torch.randint(4, 100, (1, length)), torch.randint(4, 100, (1, 100))
        return peak_bytes(lambda: model(source, target).square().mean().backward())

    short, long = peak(1000), peak(words)
    assert long / short < 1.1 * words / 1000
    assert long < 40_000 * words  # 640 MB for 16,000 tokens


@pytest.mark.slow
def test_the_recipe_long_recall_learns_to_find_what_was_stated_early(heedful: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = ["data.max_length=258", "model.max_positions=258", "data.examples=60000"]  # the recipe itself takes thousands
    at_end = [f"training.{name}=500" for name in ("steps", "validate_every", "checkpoint_every")]
    done = heedful("train", "long-recall", *short, *at_end, "training.workers=1", "--run", run)
    assert done.returncode == 0, done.stderr
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert results["final"]["test"]["accuracy"] > 90, "a guess among the digits stated is right in 25 %"
