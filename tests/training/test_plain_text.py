"""Plain text in addition to pairs: a helper model translates it, every step runs once, and killed runs end bit-identical."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import small_recipe, write_pairs
from heedful.data.drops import Drops
from heedful.data.monolingual import SyntheticPairs, choose_lines, lines_translated, translate_lines, translations
from heedful.data.prepare import read_manifest
from heedful.data.prepare_pairs import load_prepared
from heedful.errors import HeedfulError, Stopped, UsageError
from heedful.pipelines import load_pipeline
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Silence
from heedful.training.plain_text import HELPERS, helper_recipe, helpers_of, passes_over, train_helpers, translate_plain_text
from heedful.training.run import train


def recipe_with(folder: Path, *overrides: str) -> Recipe:
    """Pairs of digits and words, and as plain text the words of other numbers."""
    recipe = small_recipe("translation", folder)
    more = folder / "more"
    more.mkdir(exist_ok=True)
    source, target = write_pairs(more, 400, seed=7)
    known = Path(recipe.data.target).read_text(encoding="utf-8")
    target.write_text(f"{known}{target.read_text(encoding='utf-8')}\n", encoding="utf-8")
    plain = [f"data.monolingual_target={target}"] if "data.monolingual_source=" not in overrides else []
    own = [override.replace("data.monolingual_source=", f"data.monolingual_source={source}") for override in overrides]
    return small_recipe("translation", folder, *plain, "tokenizer.kind=word", *own)


class Heard(Silence):
    """Remembers what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def say(self, text: str) -> None:
        self.said += f"{text}\n"


class Killed(Silence):
    """Interrupts the process when something is said or tracked that contains a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def say(self, text: str) -> None:
        if self.text in text:
            raise KeyboardInterrupt

    def track(self, label: str, total: int | None, done: int = 0) -> Callable[[int], None]:
        def tick(more: int) -> None:
            nonlocal done
            done += more
            self.say(f"{label} {done}")

        self.say(label)
        return tick


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    train(recipe_with(folder), folder / "run", Silence())
    return folder


def test_a_reverse_model_translates_the_plain_text_which_is_trained_on(whole: Path) -> None:
    run = whole / "run"
    recipe, reverse = load_recipe(str(run / "recipe.toml")), load_recipe(str(run / "reverse" / "recipe.toml"))
    assert (reverse.data.reverse, reverse.data.monolingual_target, reverse.training.steps) == (
        True,
        "",
        recipe.training.steps // 2,
    )
    assert json.loads((run / "reverse" / "results.json").read_text())["steps"] == reverse.training.steps
    plain = json.loads((run / "reverse" / "plain" / "lines.json").read_text())
    pairs = list(SyntheticPairs(translations(run / "reverse")).read(Drops()))
    known = set(Path(recipe.data.target).read_text(encoding="utf-8").splitlines())
    assert {target for _, target in pairs} <= set(plain)
    assert len(set(plain)) == len(plain) > 150
    assert not known & set(plain), "what has a true translation is not back-translated"
    translator = load_pipeline(run / "reverse")
    assert [translator.translate(target, beam=1) for _, target in pairs[:3]] == [source for source, _ in pairs[:3]]
    prepared = load_prepared(run / "data")
    stored = [
        (
            prepared.source_tokenizer.decode(prepared.train.source[i].tolist()),
            prepared.target_tokenizer.decode(prepared.train.target[i].tolist()),
        )
        for i in range(len(prepared.train))
    ]
    held = {source for source, _ in prepared.valid}
    for pair in pairs:
        assert pair in stored or pair[0] in held
    real = [pair for pair in stored if pair[1] in known]
    assert (repeats := round(len(pairs) / 120)) > 1
    assert len(real) == repeats * (120 - len(prepared.valid)), "real pairs are about half"
    assert str(run / "reverse" / "translations" / "000000.jsonl") in read_manifest(run / "data")["inputs"]


@pytest.mark.parametrize("moment", ["translating the plain text", "looking at the plain text", "tokenising"])
def test_killed_at_any_stage_the_run_ends_the_same(
    moment: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.data.monolingual.CHUNK", 100)
    recipe = recipe_with(whole)
    with pytest.raises((KeyboardInterrupt, Stopped)):
        train(recipe, tmp_path / "run", Killed(f"{moment} 100" if moment.startswith("translating") else moment))
    translated = sorted((tmp_path / "run" / "reverse" / "translations").glob("*"))
    assert len(translated) == {"translating the plain text": 1}.get(moment, 0)
    if translated:
        translated[0].write_text(translated[0].read_text(), encoding="utf-8")
        stamp = translated[0].stat().st_mtime_ns
        with pytest.raises(HeedfulError, match="has no complete translations"):
            translations(tmp_path / "run" / "reverse")
    train(recipe, tmp_path / "run", Silence())
    if translated:
        assert translated[0].stat().st_mtime_ns == stamp, "what was translated is not translated again"
    for part in ("reverse/best", "best", "final"):
        assert same_weights(whole / "run" / part, tmp_path / "run" / part)


def same_weights(one: Path, other: Path) -> bool:
    return (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def test_stopped_in_the_reverse_model_it_continues_there(whole: Path, tmp_path: Path) -> None:
    class Stops(Silence):
        def at_step(self, step: int, steps: int) -> None:
            if step == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    recipe = recipe_with(whole)
    with pytest.raises(Stopped, match="stopped at step 2 of 20"):
        train(recipe, tmp_path / "run", Stops())
    assert not (tmp_path / "run" / "recipe.toml").exists()
    train(recipe, tmp_path / "run", Silence())
    assert same_weights(whole / "run" / "final", tmp_path / "run" / "final")


def test_plain_text_of_the_source_is_translated_by_a_first_model(tmp_path: Path) -> None:
    recipe = recipe_with(tmp_path, "data.monolingual_source=", "training.steps=2")
    (helper,) = helpers_of(recipe)
    assert (helper.folder, helper_recipe(recipe, helper).data.reverse) == ("first", False)
    train(recipe, tmp_path / "run", Silence())
    given = {source for source, _ in SyntheticPairs(translations(tmp_path / "run" / "first")).read(Drops())}
    assert given <= set(Path(recipe.data.monolingual_source).read_text(encoding="utf-8").splitlines())


def test_a_reverse_model_does_not_begin_as_a_parent_of_the_wrong_direction() -> None:
    files = ["data.source=a.en", "data.target=a.de", "data.monolingual_target=b.de", "model.pretrained=x", "tokenizer.extend=9"]
    recipe = load_recipe("translation", files)
    reverse = helper_recipe(recipe, HELPERS[0])
    assert (reverse.model["pretrained"], reverse.model["d_model"], reverse.tokenizer.extend) == ("", 128, 0)
    assert {"model.layers", "tokenizer.size", "training.steps"} <= set(reverse.open), "they follow from the data"
    first = helper_recipe(recipe, HELPERS[1])
    assert (first.model["pretrained"], first.tokenizer.extend) == ("x", 9)


def test_of_too_many_lines_some_are_chosen_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.monolingual.FEWEST", 10)
    monkeypatch.setattr("heedful.data.monolingual.CHUNK", 4)
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(f"line {number}\n" for number in range(95)) + "\nline 3\n", encoding="utf-8")
    choose_lines(plain, ["line 1"], 1, tmp_path / "plain", Silence())
    translate_lines(
        tmp_path / "plain", lambda texts: [text.upper() for text in texts], False, tmp_path / "translations", Silence()
    )
    pairs = list(SyntheticPairs(translations(tmp_path)).read(Drops()))
    numbers = [int(source.removeprefix("line ")) for source, _ in pairs]
    assert len(set(numbers)) == 20
    assert 1 not in numbers, "it is in the pairs"
    assert numbers != sorted(numbers), "so that the first ones are a random choice, too"
    assert all(target == source.upper() for source, target in pairs)
    with pytest.raises(HeedfulError, match=r"no usable line in .*: 97 dropped: .* that are in the pairs, or occur twice"):
        choose_lines(plain, plain.read_text().splitlines(), 1, tmp_path / "other", Silence())


def test_plain_text_is_looked_at_before_anything_is_trained(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    lines = [f"word{number} stone{number}" for number in range(40)]
    wrong.write_text("\n".join(lines), encoding="utf-8")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\tnothing alike\n" for line in lines), encoding="utf-8")
    for name, says in (
        ("absent", "there is no file"),
        ("wrong", "80 words of the other side of the pairs and only 0 of its own"),
    ):
        data = [f"data.source={pairs}", f"data.monolingual_target={tmp_path / name}"]
        with pytest.raises(HeedfulError, match=says):
            train(load_recipe("translation", data), tmp_path / "run", Silence())
        assert not (tmp_path / "run").exists()


def test_plain_text_needs_files_of_pairs() -> None:
    with pytest.raises(UsageError, match=r"data\.monolingual_target needs files of pairs, not data\.generate=dates"):
        load_recipe("dates", ["data.monolingual_target=x"])


@pytest.mark.parametrize(
    ("more", "shares"), [([], [1 / 3]), (["data.both=true"], [1 / 2]), (["data.monolingual_source=c"], [1 / 6] * 2)]
)
def test_helpers_get_their_share_of_the_time(
    more: list[str], shares: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe("translation", ["data.source=a.en", "data.target=a.de", "data.monolingual_target=b.de", *more])
    monkeypatch.setattr("heedful.training.plain_text.check_plain_text", lambda recipe, helper: None)  # there are no files
    given: list[float | None] = []
    limits: list[float | None] = []
    monkeypatch.setattr("heedful.training.plain_text.translate_plain_text", lambda *given_to: limits.append(given_to[-2]))
    left = train_helpers(recipe, tmp_path, Silence(), 600.0, lambda own, run, seconds: given.append(seconds))
    assert given == pytest.approx([600 * share for share in shares])
    assert limits == pytest.approx([100 / len(shares)] * len(shares))
    assert left is not None
    assert 500 < left <= 600, "what the helpers did not use is left"
    assert train_helpers(recipe, tmp_path, Silence(), None, lambda *own: given.append(own[2])) is None
    assert given[-1] is None


def test_as_many_lines_are_used_as_training_can_read_often_enough(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, helper = recipe_with(whole), whole / "run" / "reverse"
    lines = ["x" * 47] * 100  # about eleven tokens each, and as many of true pairs
    assert passes_over(recipe, helper, lines, None) == pytest.approx(40 * 300 / 2200)
    fitted = load_recipe("translation", ["data.source=a.en", "data.target=a.de", "data.monolingual_target=b.de"])
    assert passes_over(fitted, helper, lines, None) is None, "a plan reads everything often enough"
    last = [row for row in read_metrics(helper / "metrics.jsonl") if row["kind"] == "train"][-1]
    rate = last["tokens"] / last["seconds"]
    assert passes_over(fitted, helper, lines, 60.0) == pytest.approx(60 * rate / 2200)

    shutil.copytree(whole / "run", tmp_path / "run", ignore=shutil.ignore_patterns("translations"))
    heard = Heard()
    translate_plain_text(recipe, tmp_path / "run", HELPERS[0], heard, None, 1e-6)
    assert "plain text: left out; about 0 steps fit into the remaining time, and the pairs alone need" in heard.said
    assert (lines_translated(tmp_path / "run" / "reverse"), translations(tmp_path / "run" / "reverse")) == (0, ())
    shutil.rmtree(tmp_path / "run" / "reverse" / "translations")
    monkeypatch.setattr("heedful.training.plain_text.steps_for_pairs", lambda recipe: 0)
    translate_plain_text(recipe, tmp_path / "run", HELPERS[0], heard, None, 8 * 2 * 5 * 40 / rate)
    assert "fewer than 8 help little" in heard.said
    assert 1 <= lines_translated(tmp_path / "run" / "reverse") < 100
    again = Heard()
    translate_plain_text(recipe, tmp_path / "run", HELPERS[0], again, None, None)
    assert "raise training.steps or give less text" in again.said


def test_translating_ends_when_the_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.data.monolingual.CHUNK", 2)
    plain = tmp_path / "plain.txt"
    plain.write_text("".join(f"line {number}\n" for number in range(9)), encoding="utf-8")
    choose_lines(plain, [], 9, tmp_path / "plain", Silence())
    for _ in range(2):
        translate_lines(tmp_path / "plain", list, False, tmp_path / "translations", Silence(), seconds=-1.0)
        assert len(list(SyntheticPairs(translations(tmp_path)).read(Drops()))) == 2
    assert lines_translated(tmp_path) == 2
