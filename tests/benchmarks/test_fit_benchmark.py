"""The benchmark of the recipe that fits itself: every setting is planned for the same time, and rows are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fit
from conftest import write_pairs
from fit_corpora import divide, write

TINY = ["model.layers=1", "model.d_model=16", "model.d_ff=16", "model.heads=2", "tokenizer.size=300", "decoding.beam=1"]


def test_settings_are_trained_for_the_same_time_and_a_row_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpora" / "digits"
    for name, count in (("train", 200), ("val", 20), ("test", 20)):
        for side, path in zip(fit.SIDES, write_pairs(tmp_path, count), strict=True):
            corpus.mkdir(parents=True, exist_ok=True)
            path.rename(corpus / f"{name}.{side}")
    monkeypatch.setattr(fit, "SECONDS", 0.05)
    output = tmp_path / "fit.txt"
    command = ["fit.py", str(corpus.parent), "--minutes", "0.01", "--output", str(output), "--set", *TINY]
    monkeypatch.setattr("sys.argv", [*command, "--settings", "plain", "translation"])
    fit.main()
    rows = fit.saved(output)
    assert [(row["corpus"], row["setting"], row["pairs"]) for row in rows] == [
        ("digits", "plain", 200),
        ("digits", "translation", 200),
    ]
    assert all("validation_bleu" in row and "test_bleu" not in row for row in rows), "with --set, test is left alone"
    assert "subwords" in rows[1]["plan"]
    monkeypatch.setattr(fit, "measure", lambda *_: pytest.fail("it was there already"))
    fit.main()
    assert "| digits | 200 |" in capsys.readouterr().out
    assert [json.dumps(row) for row in fit.saved(output)] == [json.dumps(row) for row in rows]


def test_a_source_stands_in_one_part_of_a_corpus_alone() -> None:
    groups = [[(f"{group} {number % 7}", f"x{number}") for number in range(30)] for group in range(30)]
    parts = divide(groups)
    sources = [source for pairs in parts.values() for source, _ in pairs]
    assert len(sources) == len(set(sources)) == 30 * 7
    assert all(parts.values())


def test_a_corpus_without_text_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "manuals-xx", divide([]))
    assert not (tmp_path / "manuals-xx").exists()
    assert "manuals-xx: left out" in capsys.readouterr().out
