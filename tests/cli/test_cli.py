"""The command line with valid and invalid requests, in a separate process where that matters."""

from __future__ import annotations

import gzip
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import sacrebleu
import torch

from conftest import Run
from heedful.models import MODEL_KINDS
from heedful.models.presets import PRESETS
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.pipelines.translator import Translator
from heedful.recipes import load_recipe, shipped_recipes
from heedful.text import Tokenizer

COMMAND = [sys.executable, "-m", "heedful"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"}
VERBS = [
    "train", "translate", "summarize", "generate", "fill", "embed", "classify", "tag", "answer", "evaluate", "recipes", "info",
    "import", "export",
]  # fmt: skip
Failure = Callable[..., str]  # arguments and exit code → the error's sentence
LINES = ["ein mann", "", "zwei hunde im schnee", " ", "ein", "der hund steht auf der leiter", "leiter"]


def heedful(*arguments: object, stdin: bytes = b"", code: int = 0) -> tuple[str, str]:
    """Run a command, expect its exit code, and give what it wrote to stdout and stderr."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, env=ENVIRONMENT, timeout=100, check=False
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, err
    return out, err


def only_sentence(out: str, err: str) -> str:
    """The one sentence that a command which failed left behind."""
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err.removeprefix("error: ").strip()


@pytest.fixture
def sentence_of(run: Run) -> Failure:
    """The one sentence on stderr of a command that fails."""
    return lambda *arguments, code=1: only_sentence(*run(*arguments, code=code))


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A small model of random weights that answers different lines differently."""
    tokenizer = Tokenizer.train("char", LINES, 60)
    torch.manual_seed(3)
    config = Seq2SeqConfig(tokenizer.size, tokenizer.size, layers=1, d_model=16, d_ff=32, heads=2, norm="pre", tie="none")
    return Translator(Seq2Seq(config).eval(), tokenizer, tokenizer, beam=2, max_extra=8)


@pytest.fixture(scope="module")
def model(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "best"
    translator.save(folder, "# A small model\n")
    return folder


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "copied"))


def test_help_lists_every_verb() -> None:
    out, _ = heedful("--help")
    assert all(f" {verb} " in out for verb in VERBS)


@pytest.mark.parametrize("arguments", [["translat"], ["recipes", "--frobnicate"], ["train"], ["translate", "x", "--beam", "two"]])
def test_an_impossible_request_exits_with_2(arguments: list[str], run: Run) -> None:
    out, err = run(*arguments, code=2)
    assert out == ""
    assert "Usage: heedful" in err
    assert "Traceback" not in err


def test_an_unknown_recipe_is_a_sentence_with_a_suggestion(sentence_of: Failure) -> None:
    assert sentence_of("train", "daets", code=2) == "there is no recipe 'daets'; did you mean 'dates'?"


def test_a_missing_model_is_a_sentence(tmp_path: Path, sentence_of: Failure) -> None:
    found = sentence_of("translate", tmp_path / "absent", "text")
    assert found == f"there is no model directory {tmp_path / 'absent'}"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    _, err = heedful("--debug", "translate", tmp_path / "absent", "text", code=1)
    assert "Traceback" in err
    assert "HeedfulError: there is no model directory" in err


def test_recipes_lists_what_can_be_trained_and_shows_one_in_full(run: Run, tmp_path: Path) -> None:
    out, _ = run("recipes")
    recipes, refused, *kinds = out.strip().split("\n\n")
    told = {line.split()[0] for line in refused.splitlines()[1:]}
    assert told == {"classification", "multi30k", "translation"}
    assert [line.split()[0] for line in recipes.splitlines()[1:]] == list(shipped_recipes())
    shown = {part.splitlines()[0].split()[-1]: [line.split()[0] for line in part.splitlines()[1:]] for part in kinds}
    assert shown == {kind: [name for name, preset in PRESETS.items() if preset.kind == kind] for kind in MODEL_KINDS}
    (tmp_path / "mine.toml").write_text(run("recipes", "dates")[0], encoding="utf-8")
    assert load_recipe(str(tmp_path / "mine.toml")) == load_recipe("dates")


def test_text_arguments_are_translated_in_order(model: Path, translator: Translator) -> None:
    expected = translator.translate(LINES)
    assert len(set(expected)) >= 4  # so that order can be seen
    out, err = heedful("translate", model, *LINES)
    assert out == "".join(f"{line}\n" for line in expected)
    assert err == ""


def test_a_gzip_file_is_translated_line_by_line(model: Path, translator: Translator, tmp_path: Path, run: Run) -> None:
    (tmp_path / "lines.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    out, _ = run("translate", model, "--input", tmp_path / "lines.gz", "--beam", 1)
    assert out == "".join(f"{line}\n" for line in translator.translate(LINES, beam=1))


def test_standard_input_with_windows_line_ends_and_bad_bytes_loses_no_line(model: Path, translator: Translator, run: Run) -> None:
    content = b"\xef\xbb\xbfein mann\r\n\r\nzwei \xff hunde\r\nein\r\n" + "\u2028leiter".encode()
    out, err = run("translate", model, stdin=content)
    expected = translator.translate(["ein mann", "", "zwei \ufffd hunde", "ein", "\u2028leiter"])
    assert out.split("\n") == [*expected, ""]
    assert err == "warning: input line 3 is not valid UTF-8\n"


def test_many_lines_of_standard_input_keep_their_order(model: Path, translator: Translator, run: Run) -> None:
    lines = [LINES[number * 5 % 7] for number in range(600)]
    answers = dict(zip(LINES, translator.translate(LINES), strict=True))
    out, _ = run("translate", model, stdin="".join(f"{line}\n" for line in lines))
    assert out.splitlines() == [answers[line] for line in lines]


def test_a_line_is_answered_before_the_next_is_given(model: Path, translator: Translator) -> None:
    def pass_on(stream: IO[bytes]) -> None:
        for line in stream:
            answers.put(line)

    answers: queue.Queue[bytes] = queue.Queue()
    with subprocess.Popen(
        [*COMMAND, "translate", str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=pass_on, args=(process.stdout,), daemon=True).start()
        try:
            for text in ["ein mann", "", "leiter"]:
                process.stdin.write(f"{text}\n".encode())
                process.stdin.flush()
                assert answers.get(timeout=60).decode() == translator.translate([text])[0] + "\n"
            process.stdin.close()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_n_best_as_json_gives_scored_translations_best_first(model: Path, translator: Translator, run: Run) -> None:
    out, _ = run("translate", model, "ein mann", "", "grün \udcff", "--n-best", 3, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["source"] for row in rows] == ["ein mann", "", "grün \ufffd"]
    assert [len(row["translations"]) for row in rows] == [3, 0, 3]
    found = rows[0]["translations"]
    expected = translator.search(["ein mann"], n_best=3)[0]
    assert [entry["text"] for entry in found] == [translator.target_tokenizer.decode(h.tokens) for h in expected]
    assert [entry["score"] for entry in found] == pytest.approx([h.score for h in expected], rel=1e-4)
    assert sorted(found, key=lambda entry: -entry["score"]) == found
    assert all(entry["log_probability"] < 0 for entry in found)


def test_n_best_writes_n_lines_for_every_line_of_input(model: Path, run: Run) -> None:
    out, _ = run("translate", model, "ein mann", "", "leiter", "--n-best", 3)
    lines = out.split("\n")
    assert len(lines) == 10
    assert lines[3:6] == ["", "", ""]


def test_sampling_with_the_same_seed_draws_the_same(model: Path, run: Run) -> None:
    sampled = ["translate", model, *LINES, "--sample", "--temperature", 2, "--top-k", 20]
    first, _ = run(*sampled, "--seed", 7)
    assert heedful(*sampled, "--seed", 7)[0] == first
    assert run(*sampled, "--seed", 8)[0] != first


def test_evaluation_can_be_reproduced_from_what_it_writes(model: Path, translator: Translator, tmp_path: Path, run: Run) -> None:
    right = ["ein mann", "x", "zwei hunde", "y", translator.translate(["ein"])[0], "auf der leiter", "leiter"]
    (tmp_path / "source").write_text("\n".join(LINES), encoding="utf-8")
    (tmp_path / "right").write_text("\n".join(right), encoding="utf-8")
    out, _ = run(
        "evaluate", model, "--source", tmp_path / "source", "--reference", tmp_path / "right",
        "--output", tmp_path / "written", "--json", "--tokenize", "char", "--lowercase",
    )  # fmt: skip
    scores = json.loads(out)
    written = (tmp_path / "written").read_text(encoding="utf-8").split("\n")[:-1]
    assert written == translator.translate(LINES)
    bleu = sacrebleu.corpus_bleu(written, [right], tokenize="char", lowercase=True)
    assert scores["bleu"] == pytest.approx(bleu.score, abs=1e-6)
    assert scores["bleu"] > 0
    assert scores["chrf"] > 0
    assert scores["exact"] == pytest.approx(100 * sum(a == b for a, b in zip(written, right, strict=True)) / 7)
    assert scores["exact"] > 0
    assert scores["perplexity"] == pytest.approx(translator.perplexity(list(zip(LINES, right, strict=True))), rel=1e-4)
    assert "tok:char" in scores["bleu_signature"]
    assert "case:lc" in scores["chrf_signature"]
    assert scores["examples"] == 7


def test_evaluation_searches_as_told(model: Path, translator: Translator, tmp_path: Path, run: Run) -> None:
    (tmp_path / "source").write_text("\n".join(LINES), encoding="utf-8")
    written = {}
    for alpha in (0, 5):
        out, _ = run(
            "evaluate", model, "--source", tmp_path / "source", "--reference", tmp_path / "source",
            "--output", tmp_path / "written", "--json", "--beam", 3, "--length-penalty", alpha,
        )  # fmt: skip
        told = json.loads(out)
        assert (told["beam"], told["length_penalty"]) == (3, alpha)
        written[alpha] = (tmp_path / "written").read_text(encoding="utf-8")
        assert written[alpha] == run("translate", model, *LINES, "--beam", 3, "--length-penalty", alpha)[0]
    ranked = [run("translate", model, *LINES, "--beam", 3, "--length-penalty", alpha, "--json")[0] for alpha in (0, 5)]
    assert ranked[0] != ranked[1]  # the scores differ, whichever outputs are the best
    files = ("--source", tmp_path / "source", "--reference", tmp_path / "source")
    assert "7, beam 3, length penalty 0.5\n" in run("evaluate", model, *files, "--beam", 3, "--length-penalty", 0.5)[0]


def test_evaluation_of_files_of_different_lengths_names_both(model: Path, tmp_path: Path, sentence_of: Failure) -> None:
    (tmp_path / "source").write_text("a\nb\n", encoding="utf-8")
    (tmp_path / "right").write_text("a\n", encoding="utf-8")
    message = sentence_of("evaluate", model, "--source", tmp_path / "source", "--reference", tmp_path / "right")
    assert "source has 2 lines but" in message
    assert "right has 1" in message


def test_evaluation_first_checks_that_its_output_can_be_written(model: Path, tmp_path: Path, sentence_of: Failure) -> None:
    (tmp_path / "source").write_text("a\n", encoding="utf-8")
    paths = ["--source", tmp_path / "source", "--reference", tmp_path / "source", "--output", tmp_path / "no" / "out"]
    assert sentence_of("evaluate", model, *paths) == f"there is no directory {tmp_path / 'no'} to write out into"


def test_info_shows_the_card_and_the_parameters(model: Path, translator: Translator, run: Run) -> None:
    out, _ = run("info", model)
    assert out.strip().startswith("A small model")
    total = sum(parameter.numel() for parameter in translator.model.parameters())
    assert f"{total:,}" in out
    assert "encoder" in out
    assert f"vocabulary {translator.source_tokenizer.size} tokens" in out


def test_a_run_directory_is_taken_for_its_best_model(model: Path, run: Run) -> None:
    assert run("translate", model.parent, "ein mann") == run("translate", model, "ein mann")


def test_a_run_that_was_never_validated_says_so(tmp_path: Path, sentence_of: Failure) -> None:
    assert sentence_of("translate", tmp_path, "text") == f"{tmp_path} is not a model directory: it has no config.json"
    (tmp_path / "recipe.toml").touch()
    said = sentence_of("translate", tmp_path, "text")
    assert said.endswith(f"the run has not been validated yet, `heedful finish {tmp_path}` makes a model from it")


def test_text_and_a_file_at_once_are_refused(model: Path, sentence_of: Failure) -> None:
    assert sentence_of("translate", model, "text", "--input", "file", code=2) == "give text or --input, not both"


@pytest.mark.parametrize("content", ["{", '{"hidden_size": 16}'])
def test_a_broken_config_is_named(content: str, copied: Path, sentence_of: Failure) -> None:
    (copied / "config.json").write_text(content)
    assert sentence_of("translate", copied, "text").startswith(str(copied / "config.json"))


def test_ctrl_c_while_reading_the_terminal_ends_quietly(model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "translate", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell has it ignored
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"ein mann\n")
    process.stdin.flush()
    process.stdout.readline()  # it has begun
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode in (1, 130)
    assert b"Fatal" not in err
    assert b"Traceback" not in err


def test_a_tokenizer_of_another_model_is_refused(copied: Path, sentence_of: Failure) -> None:
    Tokenizer.train("char", ["abcdefghijklmnopqrstuvwxyz"], 60).save(copied / "tokenizer.json")
    message = sentence_of("info", copied)
    assert message == f"{copied / 'tokenizer.json'} has 30 tokens, but the model's vocabulary has 21"


def test_a_vocabulary_smaller_than_the_model_s_is_allowed(copied: Path, run: Run) -> None:
    """Published models often round theirs up."""
    Tokenizer.train("char", ["other text"], 30).save(copied / "tokenizer.json")
    assert "vocabulary 11 tokens" in run("info", copied)[0]


def test_a_model_of_a_newer_format_is_refused(copied: Path, sentence_of: Failure) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "format": 99}))
    assert sentence_of("info", copied) == f"{copied} was written by a newer heedful (format 99); update heedful"


def test_weights_of_another_shape_are_refused(copied: Path, sentence_of: Failure) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["model"]["d_ff"] = 48
    (copied / "config.json").write_text(json.dumps(config))
    message = sentence_of("translate", copied, "text")
    assert message.startswith(f"{copied / 'model.safetensors'} does not fit the model: ")
    assert "is [32, 16] and should be [48, 16]" in message


@pytest.mark.skipif(sys.platform == "win32", reason="there is no shell pipe to close here")
def test_a_reader_that_has_enough_ends_it_quietly(model: Path, translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("ein mann\n" * 20_000, encoding="utf-8")
    with subprocess.Popen(
        [*COMMAND, "translate", str(model), "--beam", "1", "--input", str(tmp_path / "lines")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().decode() == translator.translate(["ein mann"], beam=1)[0] + "\n"
        process.stdout.close()
        try:
            assert process.stderr.read() == b""
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
