"""What people do wrong, by mistake or on purpose: the answer is a sentence, nothing is lost and no memory is taken for it."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conftest import Run, Trained, write_examples
from heedful.pipelines import load_pipeline
from heedful.runtime import device

COMMAND = [sys.executable, "-m", "heedful"]


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the best model of a job, to be damaged."""

    def copy(task: str) -> Path:
        return Path(shutil.copytree(trained(task) / "best", tmp_path / task))

    return copy


def change_config(folder: Path, **values: Any) -> None:
    """Change what `section__key` names in a config.json."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name, value in values.items():
        section, _, key = name.partition("__")
        if key:
            config[section][key] = value
        else:
            config[section] = value
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


# Inputs


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "안녕하세요 세계.\n오늘은 날씨가 좋습니다.\n".encode("cp949"),
            "is not UTF-8; it looks like CP949. Convert it: iconv ",
        ),
        ("one\ntwo\n".encode("utf-16"), "is not UTF-8; it looks like UTF-16. Convert it: iconv -f UTF-16"),
        (b"PK\x03\x04" + bytes(50), "is a ZIP archive; unpack it first"),
        (b'<?xml version="1.0"?>\n<tmx version="1.4">\n', "is a translation memory (TMX), not plain lines"),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "classify", "generate"])
def test_a_file_that_is_no_text_is_refused_once(
    verb: str, content: bytes, fault: str, trained: Trained, run: Run, tmp_path: Path
) -> None:
    model = trained({"translate": "translation", "classify": "classification", "generate": "language-model"}[verb])
    (tmp_path / "input").write_bytes(content)
    out, err = run(verb, model, "--input", tmp_path / "input", code=1)
    assert out == ""
    assert err.startswith(f"error: {tmp_path / 'input'} {fault}")
    assert err.count("\n") == 1


def test_standard_input_in_another_encoding_stops_after_a_few_lines(trained: Trained, run: Run) -> None:
    _, err = run("classify", trained("classification"), stdin=("für Gäste schön\n" * 50).encode("latin-1"), code=1)
    assert err.count("warning: input line") == 2
    assert "error: standard input is not UTF-8; it looks like CP1252" in err


@pytest.mark.parametrize(("verb", "task"), [("translate", "translation"), ("fill", "bert-pretraining")])
def test_one_input_that_cannot_be_used_is_told_and_the_others_are_done(verb: str, task: str, trained: Trained, run: Run) -> None:
    good = {"translate": ["1 2", "3"], "fill": ["the [MASK]", "[MASK] is"]}[verb]
    bad = {"translate": "7 " * 9000, "fill": "no mask here"}[verb]
    whole = [json.loads(line) for line in run(verb, trained(task), *good, "--json")[0].splitlines()]
    out, err = run(verb, trained(task), good[0], bad, good[1], "--json", code=1)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [rows[0], rows[2]] == whole
    assert rows[1]["error"] in err
    assert "error: input 2: " in err
    assert err.splitlines()[-1] == "error: 1 of 3 inputs could not be used"
    plain = run(verb, trained(task), good[0], bad, good[1], code=1)[0].splitlines()
    assert plain[1] == "", "outputs stay aligned with inputs"


def test_damaged_images_are_told_one_by_one(trained: Trained, run: Run, tmp_path: Path) -> None:
    folder = write_examples("image-classification", tmp_path, 4)
    whole = str(next(folder.rglob("*.png")))
    (tmp_path / "cut.avif").write_bytes(b"\0\0\0\x1cftypavif\0\0\0\0mif1avifmiaf")
    (tmp_path / "cut.dds").write_bytes(b"DDS \x7c\0\0\0")
    damaged = [str(tmp_path / "cut.avif"), str(tmp_path / "cut.dds"), str(tmp_path / "absent.png")]
    out, err = run("classify", trained("image-classification"), damaged[0], whole, *damaged[1:], whole, code=1)
    lines = out.splitlines()
    assert [bool(line) for line in lines] == [False, True, False, False, True]
    assert err.count("error: input ") == 3
    assert "unexpected" not in err


def test_an_image_whose_name_is_not_utf8_is_classified(trained: Trained, run: Run, tmp_path: Path) -> None:
    folder = write_examples("image-classification", tmp_path, 2)
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
    shutil.copy(next(folder.rglob("*.png")), odd)
    assert json.loads(run("classify", trained("image-classification"), "--json", odd)[0])["labels"]


@pytest.mark.parametrize("count", ["--beam", "--n-best"])
def test_a_beam_that_does_not_fit_into_memory_is_refused(
    count: str, trained: Trained, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.pipelines.memory_check.memory_of_machine", lambda: 1 << 30)
    out, err = run("translate", trained("translation"), "1 2 3", count, 1_000_000, code=2)
    assert out == ""
    assert err.startswith("error: a beam of 1,000,000 would take about ")
    widest = int(err.rsplit(" ", 1)[1].replace(",", ""))
    assert 1 < widest < 1_000_000
    assert device.memory_of_machine() > 1 << 30


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--seed", "9" * 31], "seed must be at most 9,223,372,036,854,775,807"),
        (["--seed", "-1"], "seed must be at least 0, not -1"),
        (["--temperature", "inf"], "temperature must be a finite number, not inf"),
        (["--temperature", "nan"], "temperature must be a finite number, not nan"),
        (["--temperature", "0"], "temperature must be at least 0.001, not 0.0"),
        (["--top-p", "nan"], "top_p must be a finite number"),
        (["--length", "9" * 20], "length must be at most 1,000,000"),
    ],
)
def test_impossible_values_of_options_are_named(options: list[str], fault: str, trained: Trained, run: Run) -> None:
    out, err = run("generate", trained("language-model"), "the", *options, code=2)
    assert (out, err) == ("", f"error: {err.removeprefix('error: ')}")
    assert fault in err


def test_a_length_penalty_must_be_finite(trained: Trained, run: Run) -> None:
    for verb, more in (("translate", ["text"]), ("evaluate", ["file"])):
        assert (
            "must be a finite number, not inf" in run(verb, trained("translation"), *more, "--length-penalty", "inf", code=2)[1]
        )


# Models


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model__source_vocab": 20_000_000, "model__target_vocab": 20_000_000}, "model.safetensors does not fit the model: "),
        ({"model__layers": 900}, "900 layers, but"),
        ({"model__layers": 10**12}, "layers must be at most 1,000"),
        ({"model__heads": True}, "heads must be a whole number, not True"),
        ({"model__dropout": -0.5}, "dropout must be at least 0 and below 1, not -0.5"),
        ({"model__norm": "middle"}, "norm must be one of post, pre, not 'middle'"),
        ({"model": [1]}, "does not describe a heedful model"),
        ({"task": [1]}, "names the task '[1]'"),
        ({"kind": {}}, "and the kind '{}', which this version does not have"),
        ({"format": True}, "was written by a newer heedful"),
        ({"settings": 3}, "settings must be an object"),
        ({"settings__beam": None}, "beam must be a whole number, not None"),
        ({"settings__length_penalty": "much"}, "length_penalty must be a number, not 'much'"),
        ({"settings__max_extra": -1}, "max_extra must be at least 0, not -1"),
        ({"settings__loud": 1}, "there is no setting 'loud'"),
        ({"tokens": {"tokenizer": {"pad": 3}}}, "does not name the special tokens"),
    ],
)
def test_a_wrong_config_is_a_sentence_and_takes_no_memory(
    change: dict[str, Any], fault: str, copied: Callable[[str], Path], run: Run
) -> None:
    folder = copied("translation")
    change_config(folder, **change)
    out, err = run("translate", folder, "1 2", code=1)
    assert out == ""
    assert fault in err
    assert "unexpected" not in err


def test_labels_that_are_no_names_are_refused(copied: Callable[[str], Path], run: Run) -> None:
    folder = copied("classification")
    wrong: tuple[Any, ...] = (None, {"a": 1}, [None, {}], ["one"], "text")
    for labels in wrong:
        change_config(folder, settings__labels=labels)
        assert str(folder / "config.json") in run("classify", folder, "text", code=1)[1]


def test_a_config_that_is_nested_too_deeply_is_a_sentence(copied: Callable[[str], Path], run: Run) -> None:
    folder = copied("tagging")
    (folder / "config.json").write_text('{"model": ' + "[" * 100_000)
    assert "it is nested too deeply" in run("tag", folder, "text", code=1)[1]


def test_a_header_that_would_take_all_memory_is_refused(copied: Callable[[str], Path], run: Run) -> None:
    folder = copied("language-model")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 10**10) + b"{}")
    _, err = run("generate", folder, "the", code=1)
    path = folder / "model.safetensors"
    assert err == f"error: {path} is not a complete safetensors file: its header would take 10,000,000,000 bytes\n"


def test_a_card_that_is_not_utf8_is_no_reason_to_fail(copied: Callable[[str], Path], run: Run) -> None:
    folder = copied("classification")
    (folder / "README.md").write_bytes(b"# caf\xe9\n")
    assert run("classify", folder, "text")[0]
    assert run("info", folder)[0]


@pytest.mark.parametrize("labels", [{"0": None, "1": "b"}, {"0": {}, "1": "b"}, {"0": True, "1": "b"}])
def test_an_import_with_labels_that_are_no_names_is_refused(
    labels: dict[str, Any], trained: Trained, run: Run, tmp_path: Path
) -> None:
    run("export", trained("tagging"), tmp_path / "theirs")
    values = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**values, "id2label": labels}))
    assert "has an id2label with names that are not text" in run("import", tmp_path / "theirs", tmp_path / "ours", code=1)[1]
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("name", ["hidden_dropout_prob", "layer_norm_eps", "attention_probs_dropout_prob"])
@pytest.mark.parametrize("value", [-1, 1e20])
def test_an_import_with_absurd_numbers_is_refused(name: str, value: float, trained: Trained, run: Run, tmp_path: Path) -> None:
    run("export", trained("tagging"), tmp_path / "theirs")
    values = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**values, name: value}))
    assert "does not describe a model: " in run("import", tmp_path / "theirs", tmp_path / "ours", code=1)[1]


def test_a_name_of_the_hub_is_told_how_to_download_it(run: Run, tmp_path: Path) -> None:
    _, err = run("import", "google-bert/bert-base-uncased", tmp_path / "out", code=1)
    assert "`hf download google-bert/bert-base-uncased --local-dir bert-base-uncased`" in err


def test_roberta_is_not_taken_for_bert(run: Run, tmp_path: Path) -> None:
    (tmp_path / "roberta").mkdir()
    (tmp_path / "roberta" / "config.json").write_text('{"model_type": "roberta"}')
    _, err = run("import", tmp_path / "roberta", tmp_path / "out", code=1)
    assert "which heedful does not read; it reads bert, big_bird, gpt2, longformer, marian, vit" in err
    assert "did you mean" not in err


# Files and disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_leaves_no_half_directory(small_disk: Path, trained: Trained, run: Run) -> None:
    (small_disk / "filler").write_bytes(bytes(50_000))
    _, err = run("export", trained("tagging"), small_disk / "out", code=1)
    assert "the disk is full" in err
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    lines = ["text"] * 2000
    source = small_disk.parent / "lines"
    source.write_text("\n".join(lines))
    _, err = run("embed", trained("classification"), "--input", source, "--output", small_disk / "vectors.npy", code=1)
    assert f"the disk is full: {small_disk / 'vectors.npy'} was not written" in err
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_loops_of_links_and_endless_names_are_sentences(trained: Trained, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / ("x" * 300), Path("/proc/self/mem")):
        for command in (["translate", path, "text"], ["translate", trained("translation"), "--input", path], ["info", path]):
            out, err = run(*command, code=1)
            assert out == ""
            assert err.startswith("error: ")
            assert "unexpected" not in err


def test_standard_output_that_is_full_is_a_sentence(trained: Trained) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "classify", trained("classification"), "text"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=100,
        )
    assert done.returncode == 1
    assert (
        done.stderr.decode() == "error: the disk is full: the output was not written; free some space and run the command again\n"
    )


def test_quiet_shows_results_alone_and_help_is_short_to_ask_for(trained: Trained, run: Run) -> None:
    assert run("classify", "-h")[0].strip().startswith("Usage: heedful classify")
    assert run("--quiet", "classify", trained("classification"), "text")[1] == ""


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (["serve", "{folder}"], "serving needs signals and process limits that Windows does not have; use WSL"),
        (["train", "dates", "--run", "{folder}/run"], "training needs file locks that Windows does not have; use WSL"),
    ],
)
def test_what_windows_cannot_do_is_a_sentence(
    command: list[str], fault: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.cli.serve.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setitem(sys.modules, "fcntl", None)  # so that importing it fails
    assert fault in run(*(word.format(folder=tmp_path) for word in command), code=1)[1]


# Scores


def test_labels_the_model_does_not_know_are_counted(trained: Trained, run: Run, tmp_path: Path) -> None:
    labels = load_pipeline(trained("classification")).labels
    rows = [f"the sun is over {number}\t{labels[number % len(labels)]}" for number in range(20)]
    data = tmp_path / "held.tsv"
    data.write_text("\n".join([*rows, "some text\tnonsense", "no tab here"]))
    out, _ = run("evaluate", trained("classification"), data)
    assert "1 dropped: 1 with a number of columns other than 2 (first: held.tsv line 22)" in out
    assert "labels that the model does not know: 'nonsense' 1 times (first: example 21)" in out
    found = json.loads(run("evaluate", trained("classification"), data, "--json")[0])
    assert (found["unknown_labels"], found["examples"]) == ({"nonsense": 1}, 21)
    data.write_text("\n".join(f"text {number}\tnonsense" for number in range(9)))
    assert (
        "'nonsense' 9 times (first: example 1), most of the data" in run("evaluate", trained("classification"), data, code=1)[1]
    )
    data.write_text("\n".join(["a line without a tab"] * 9 + rows[:1]))
    assert "most of " in run("evaluate", trained("classification"), data, code=1)[1]


@pytest.mark.parametrize(("losses", "best"), [([math.nan, 5.0, 6.0], 2), ([4.0, math.inf, math.nan], 1), ([math.nan] * 3, 1)])
def test_a_validation_that_is_not_finite_never_stands_in_the_way(
    losses: list[float], best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conftest import small_recipe
    from heedful.evaluation.score_names import Scores
    from heedful.models.gpt import GPT
    from heedful.runtime.processes import Processes
    from heedful.runtime.run_log import read_metrics
    from heedful.runtime.screen import Silence
    from heedful.tasks.language_model import LanguageModelTask
    from heedful.training.checkpoint import list_checkpoints, load_checkpoint
    from heedful.training.run import train

    given, validate = iter(losses), LanguageModelTask.validate

    def with_given_loss(self: LanguageModelTask, model: GPT, processes: Processes, everything: bool = False) -> Scores:
        scores = validate(self, model, processes, everything)
        return scores if everything else {**scores, **dict.fromkeys(("loss", "perplexity", "bits_per_byte"), next(given))}

    monkeypatch.setattr(LanguageModelTask, "validate", with_given_loss)
    recipe = small_recipe("language-model", tmp_path, "training.steps=3", "training.validate_every=1")
    results = train(recipe, tmp_path / "run", Silence())
    _, newest = list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert load_checkpoint(newest)[2].best_step == best
    assert math.isfinite(results["best"]["validation"]["loss"])
    logged = [entry["loss"] for entry in read_metrics(tmp_path / "run" / "metrics.jsonl") if entry["kind"] == "valid"]
    assert logged == [loss if math.isfinite(loss) else None for loss in losses]


def test_weights_that_are_not_finite_are_scored_and_reported(copied: Callable[[str], Path], run: Run, tmp_path: Path) -> None:
    folder = copied("language-model")
    weights = {name: np.full_like(array, np.nan) for name, array in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    (tmp_path / "text").write_text("the sun is over\n" * 9)
    out, _ = run("evaluate", folder, tmp_path / "text")
    assert "not finite" in out
    json.loads(run("evaluate", folder, tmp_path / "text", "--json")[0])


def test_identical_images_are_told_before_training(tmp_path: Path, run: Run) -> None:
    from PIL import Image

    for name in ("one", "two"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("L", (8, 8), 7).save(tmp_path / "images" / name / f"{number}.png")
    _, err = run("train", "image-classification", f"data.train={tmp_path / 'images'}", "--run", tmp_path / "run", code=1)
    assert "the images are too few or too alike to hold some out for validation" in err
    assert not (tmp_path / "run").exists()


def test_folders_with_odd_files_are_counted_not_refused(tmp_path: Path) -> None:
    from heedful.data.drops import Drops
    from heedful.data.images import read_folder

    folder = write_examples("image-classification", tmp_path, 4)
    (folder / "upper" / "cut.avif").write_bytes(b"\0\0\0\x1cftypavif\0\0\0\0mif1avifmiaf")
    with open(os.fsencode(folder / "upper") + b"/caf\xe9.png", "wb") as file:
        file.write(b"no image")
    drops = Drops()
    assert len(read_folder(folder, 8, 1, drops=drops)) == 4
    assert drops.counts == {"unreadable as images": 2}
    drops.describe().encode()
