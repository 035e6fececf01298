"""`heedful train --both`: one command, two directions, which `--to` and the server find and the card names."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, write_pairs
from heedful.cli.serve import named_models
from heedful.data.languages import languages_of
from heedful.data.prepare_pairs import load_prepared
from heedful.errors import UsageError
from heedful.pipelines import load_pipeline
from heedful.pipelines.model_directory import other_direction, towards
from heedful.recipes import load_recipe

SMALL = (
    "model.layers=1 model.d_model=16 model.d_ff=16 model.heads=2 tokenizer.kind=word training.steps=4 training.workers=1 "
    "training.validate_every=4 training.batch_tokens=400 decoding.max_extra=5 data.source_language=de data.target_language=en"
).split()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A TSV of pairs, and plain text in the language translated into."""
    folder = tmp_path_factory.mktemp("both")
    source, target = (path.read_text(encoding="utf-8").splitlines() for path in write_pairs(folder, 80))
    tsv, plain = folder / "pairs.tsv", folder / "plain.txt"
    tsv.write_text("".join(f"{left}\t{right}\n" for left, right in zip(source, target, strict=True)), encoding="utf-8")
    plain.write_text("five six seven\none two\nthree nine zero\n", encoding="utf-8")
    return tsv, plain


def test_one_command_trains_two_directions_that_every_verb_finds(files: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    both = tmp_path / "both"
    arguments = ["train", "translation", f"data.source={files[0]}", f"data.monolingual_target={files[1]}", *SMALL]
    out, _ = run(*arguments, "--both", "--run", both)
    assert "one of the other direction in" in out
    assert f"models   {both / 'reverse' / 'best'}" in out
    assert f"models   {both / 'best'}" in out
    reverse = load_recipe(str(both / "reverse" / "recipe.toml"))
    assert (reverse.data.reverse, reverse.data.both, reverse.training.steps) == (True, False, 4), "trained as long"
    assert languages_of(reverse.data) == ("en", "de")
    there, back = load_prepared(both / "data"), load_prepared(both / "reverse" / "data")
    assert there.valid[0][0].replace(" ", "").isdigit()
    assert back.valid[0][1].replace(" ", "").isdigit()

    forward, backward = (load_pipeline(towards(both, code)) for code in ("en", "de"))
    assert (forward.source_language, forward.target_language) == ("de", "en")
    assert (backward.source_language, backward.target_language) == ("en", "de")
    text = "one two"
    assert run("translate", both, "--to", "de", text)[0] == run("translate", both / "reverse", text)[0]
    assert (
        "translates into en and de, not into fr; `heedful train … --both` trains both"
        in run("translate", both, "--to", "fr", text, code=2)[1]
    )
    assert named_models([str(both)]) == {"both": both, "both-reverse": both / "reverse"}
    card = run("info", both)[0]
    assert "other direction" in card
    assert "back-translated" in card
    assert "3 lines translated" in card
    assert "model in reverse/" in (both / "report.html").read_text(encoding="utf-8")
    again, _ = run(*arguments, "--both", "--run", both)
    assert "has finished" in again


def test_a_helper_is_not_served_as_a_direction_of_its_own(trained_with_helper: Path) -> None:
    assert named_models([str(trained_with_helper)]) == {"run": trained_with_helper}
    assert other_direction(trained_with_helper) == trained_with_helper / "reverse", "but --to finds it"


@pytest.fixture
def trained_with_helper(files: tuple[Path, Path], tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for part in ("best", "reverse/best"):
        (folder / part).mkdir(parents=True)
        (folder / part / "config.json").write_text("{}")
    recipe = load_recipe("translation", [f"data.source={files[0]}", f"data.monolingual_target={files[1]}"])
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return folder


def test_both_needs_files(run: Run, tmp_path: Path) -> None:
    assert "data.both needs files of pairs" in run("train", "dates", "--both", "--run", tmp_path, code=2)[1]
    with pytest.raises(UsageError, match=r"there is no setting 'data\.both'"):
        load_recipe("classification", ["data.both=true"])
