"""Thousands of malformed settings, files, models and options: each is accepted or answered with a sentence, within bounds.

`HEEDFUL_FUZZ=25` tries 25 times as many and prints the counts at the end.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import TASKS, Run, Trained, small_recipe, write_examples, write_pairs
from heedful.data.drops import Drops
from heedful.data.parallel import ParallelFiles
from heedful.errors import HeedfulError
from heedful.interop.huggingface import export_huggingface, import_huggingface
from heedful.jobs.registry import JOBS, TRAINABLE, VERBS
from heedful.pipelines import load_pipeline
from heedful.recipes import load_recipe, resolve
from heedful.settings import hints

TIMES = int(os.environ.get("HEEDFUL_FUZZ", "1"))
SECONDS = 30  # of computing for one case
WAIT = 300  # seconds of waiting for one case, however busy the machine is
MEMORY = 6 << 30  # bytes that a test process may ever have had
TALLY: Counter[str] = Counter()


def cases(number: int) -> Callable[..., Any]:
    """How many cases of a kind to try."""
    checks = [
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ]
    return settings(max_examples=number * TIMES, deadline=None, suppress_health_check=checks)


@contextmanager
def one_case() -> Iterator[None]:
    """Inside, only a HeedfulError may be raised, and soon."""

    def too_long(number: int, frame: object) -> None:
        TALLY["hangs"] += 1
        raise AssertionError(f"no end after {SECONDS} seconds of computing, or {WAIT} of waiting")

    TALLY["tried"] += 1
    before = {number: signal.signal(number, too_long) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(WAIT)
    try:
        yield
        TALLY["accepted"] += 1
    except HeedfulError as error:
        TALLY["clear errors"] += 1
        lines = str(error).splitlines()  # one per input that cannot be used
        if not lines or max(map(len, lines)) > 4000 or re.search(r"unexpected \w+(Error|Exception)|Traceback", str(error)):
            raise RuntimeError(f"this is no sentence for a person: {error}") from error
    except BaseException:
        TALLY["unexpected"] += 1
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak < MEMORY, f"{peak / 1e9:.1f} GB were taken"


@atexit.register
def tell() -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if TALLY and TIMES > 1:
        names = ("tried", "clear errors", "accepted", "unexpected", "hangs")
        print(", ".join(f"{name} {TALLY[name]:,}" for name in names), f"largest memory {peak:.1f} GB", file=sys.stderr)


# What may stand anywhere

numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([0, -1, 1, 10**9, 10**18, 10**30, -(10**30), 1e300, 0.5, 1e-300]))
words = st.one_of(st.text(max_size=12), st.sampled_from(["", "none", "true", "nan", "inf", "-inf", "1e9", "../..", "\x00"]))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
texts = st.one_of(
    st.text(),
    st.text(alphabet="ab \n\t", max_size=200),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=3), st.integers(1, 3000)),
)
contents = st.one_of(
    st.binary(max_size=300),
    texts.map(lambda text: text.encode("utf-8", "replace")),
    st.builds(
        lambda text, codec: text.encode(codec, "replace"), texts, st.sampled_from(["utf-16", "cp949", "latin-1", "utf-32"])
    ),
)


# Settings

KEYS = sorted({key for task in TRAINABLE for key in load_recipe(task if task != "translation" else "dates").flat()})


@cases(120)
@given(st.sampled_from(sorted(TRAINABLE)), st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(words, numbers)), max_size=3))
def test_overrides_of_a_recipe(task: str, given_: list[tuple[str, object]]) -> None:
    with one_case():
        recipe = load_recipe(task, [f"{key}={value}" for key, value in given_])
        assert resolve(__import__("tomllib").loads(recipe.to_toml())).flat() == recipe.flat()


@cases(80)
@given(
    st.dictionaries(st.one_of(words, st.sampled_from(["data", "model", "training", "task", "decoding"])), json_values, max_size=4)
)
def test_recipes_of_any_content(raw: dict[str, Any]) -> None:
    with one_case():
        resolve(raw)


@cases(80)
@given(contents)
def test_recipe_files_of_any_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "recipe.toml").write_bytes(content)
    with one_case():
        load_recipe(str(tmp_path / "recipe.toml"))


# Options


@cases(160)
@given(st.sampled_from(sorted(VERBS)), st.data())
def test_options_of_a_verb(verb: str, data: st.DataObject) -> None:
    options = VERBS[verb].options
    names = [*hints(options), "loud"]
    values = data.draw(st.dictionaries(st.sampled_from(names), json_values, max_size=3))
    with one_case():
        options.of(**values)


# Data


@pytest.mark.parametrize("task", [task for task in TASKS if task != "image-classification"])
@cases(25)
@given(st.data())
def test_data_files_of_any_content(
    task: str, trained: Trained, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("data", numbered=True)
    if task == "translation":
        whole = "\n".join(
            f"{a}\t{b}" for a, b in zip(*(p.read_text().splitlines() for p in write_pairs(folder, 20)), strict=True)
        )
        name = "pairs.tsv"
    else:
        path = write_examples(task, folder, 12)
        whole, name = path.read_text(encoding="utf-8"), path.name
    content = data.draw(st.one_of(contents, damaged(whole.encode())))
    (folder / name).write_bytes(content)
    with one_case():
        if task == "translation":
            list(ParallelFiles(folder / name).read(Drops()))
        else:
            pipeline = load_pipeline(trained(task))
            examples = pipeline.read_examples(folder / name, Drops())
            pipeline.scores(examples[:5], pipeline.predict(examples[:5]))
    shutil.rmtree(folder)


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """A file with a part cut out, doubled or replaced."""
    place = st.integers(0, len(whole))

    def change(first: int, second: int, middle: bytes) -> bytes:
        start, end = sorted((first, second))
        return whole[:start] + middle + whole[end:]

    return st.builds(change, place, place, st.one_of(st.just(b""), st.binary(max_size=40), st.just(whole[:200])))


@pytest.mark.parametrize("task", [task for task in TASKS if task != "image-classification"])
@cases(3)
@given(st.data())
def test_training_on_any_data_ends(task: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    from heedful.runtime.screen import Silence
    from heedful.training.run import train

    folder = tmp_path_factory.mktemp("train", numbered=True)
    recipe = small_recipe(task, folder, "training.steps=3", "training.validate_every=2")
    path = Path(recipe.flat().get("data.train") or recipe.flat()["data.source"])
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    with one_case():
        train(recipe, folder / "run", Silence())
    shutil.rmtree(folder)


# Models


class Copies:
    """A copy of the model of every job, to be changed and put right again."""

    def __init__(self, trained: Trained, folder: Path) -> None:
        self.trained, self.folder = trained, folder
        for task in TASKS:
            shutil.copytree(trained(task) / "best", folder / task)

    def files(self, task: str) -> list[str]:
        """The names of a model's files."""
        return sorted(path.name for path in (self.trained(task) / "best").iterdir() if path.is_file())

    def whole(self, task: str, name: str) -> bytes:
        """What a file holds when it is whole."""
        return (self.trained(task) / "best" / name).read_bytes()

    @contextmanager
    def changed(self, task: str, name: str, content: bytes) -> Iterator[Path]:
        """Inside, one file of the copy holds something else."""
        (self.folder / task / name).write_bytes(content)
        try:
            yield self.folder / task
        finally:
            (self.folder / task / name).write_bytes(self.whole(task, name))


@pytest.fixture(scope="module")
def copies(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(trained, tmp_path_factory.mktemp("copies"))


def paths_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a JSON value."""
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_in(inner, (*at, key))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """A JSON value with something else in one place."""
    return new if not at else {**value, at[0]: replaced(value[at[0]], at[1:], new)}


@cases(160)
@given(st.sampled_from(TASKS), st.data())
def test_models_with_a_changed_config(copies: Copies, task: str, data: st.DataObject) -> None:
    config = json.loads(copies.whole(task, "config.json"))
    at = data.draw(st.sampled_from(list(paths_in(config))))
    changed = json.dumps(replaced(config, at, data.draw(json_values)))
    with copies.changed(task, "config.json", changed.encode()) as folder, one_case():
        load_pipeline(folder)


@cases(120)
@given(st.sampled_from(TASKS), st.data())
def test_models_with_a_damaged_file(copies: Copies, task: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(copies.files(task)))
    content = data.draw(st.one_of(damaged(copies.whole(task, name)), st.binary(max_size=50)))
    with copies.changed(task, name, content) as folder, one_case():
        load_pipeline(folder)


@cases(100)
@given(st.sampled_from(["tagging", "question-answering", "language-model"]), st.data())
def test_imports_with_a_changed_config(copies: Copies, task: str, data: st.DataObject) -> None:
    theirs, ours = copies.folder / f"{task}-exported", copies.folder / "imported"
    if not theirs.exists():
        export_huggingface(copies.trained(task) / "best", theirs)
    name = data.draw(st.sampled_from(["config.json", "tokenizer_config.json"]))
    kept = (theirs / name).read_bytes()
    config = json.loads(kept)
    at = data.draw(st.sampled_from(list(paths_in(config))))
    (theirs / name).write_text(json.dumps(replaced(config, at, data.draw(json_values))))
    try:
        with one_case():
            import_huggingface(theirs, ours)
    finally:
        (theirs / name).write_bytes(kept)
        shutil.rmtree(ours, ignore_errors=True)


# Whole commands

MODELS = {job.verbs[0]: job.name for job in reversed(JOBS.values()) if job.name in TASKS}


@cases(80)
@given(st.sampled_from(sorted(MODELS)), contents, st.data())
def test_inputs_of_any_bytes(trained: Trained, run: Run, tmp_path: Path, verb: str, content: bytes, data: st.DataObject) -> None:
    (tmp_path / "input").write_bytes(content)
    flags = data.draw(st.sampled_from([[], ["--json"]]))
    command = [verb, trained(MODELS[verb]), "--input", tmp_path / "input", *flags]
    if verb == "generate":
        command += ["--length", 5]
    with one_case():
        _, err = run(*command, code=(0, 1, 2))
        assert not re.search(r"unexpected \w+(Error|Exception)|Traceback", err), err
        if "error: " in err:
            raise HeedfulError(err)
