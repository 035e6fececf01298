"""What tests share: one thread each, a small corpus for every job, models trained on them, and whole commands."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from filelock import FileLock

from heedful.cli.main import main
from heedful.recipes import Recipe, load_recipe

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

pytest_plugins = ["browser", "servers", "page_models"]  # fixtures that open pages, start `heedful serve`, pack models into a page
ROOT = Path(__file__).parents[1]
SLOWEST = ["serving", "system", "page", "docs"]  # rooms
WORDS = "zero one two three four five six seven eight nine".split()
THINGS = "sun rain wind snow cloud river stone tree".split()
MONTHS = "January March May July October".split()
CITIES = "Paris Rome Oslo Lima Cairo Delhi Quito Tunis Minsk Sofia".split()
TASKS = (
    "translation", "summarization", "language-model", "bert-pretraining", "classification", "tagging", "question-answering",
    "image-classification",
)  # fmt: skip
LONGER = ["tokenizer.kind=char", "training.steps=40", "training.validate_every=40", "decoding.max_extra=20"]
Command = Callable[..., subprocess.CompletedProcess[str]]
Trained = Callable[[str], Path]
Once = Callable[[str, Callable[[Path], object]], Path]  # a name, and what fills the folder of that name → the folder
Run = Callable[..., tuple[str, str]]  # arguments, exit code and standard input → what was written to stdout and stderr


def real_data(name: str) -> Path:
    """A folder of real public data, which is not part of the project; the test is skipped where it is not."""
    shared = Path(os.environ.get("HEEDFUL_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not (shared / name).is_dir():
        pytest.skip(f"there is no {name} in {shared}; set HEEDFUL_DATA to the folder that holds it")
    return shared / name


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors are faster so, and results do not depend on the machine."""
    torch.set_num_threads(1)


def write_pairs(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Two aligned files: digits, and the same number in words, backwards."""
    rng = random.Random(seed)
    source, target = folder / "train.digits", folder / "train.words"
    rows = [[rng.randrange(10) for _ in range(rng.randint(2, 6))] for _ in range(count)]
    source.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    target.write_text("".join(" ".join(WORDS[d] for d in reversed(row)) + "\n" for row in rows), encoding="utf-8")
    return source, target


def sentences(count: int, seed: int = 0) -> list[str]:
    """`the sun is over 7 rivers and stones .` and the like, of different lengths, no two of them equal."""
    rng = random.Random(seed)
    rows = [rng.choices(THINGS, k=rng.randint(2, 5)) for _ in range(count)]
    return [
        f"the {first} is over {number} {' and '.join(f'{thing}s' for thing in rest)} ."
        for number, (first, *rest) in enumerate(rows)
    ]


def tagged_dates(count: int, seed: int = 0) -> Iterator[tuple[list[str], list[str]]]:
    """Words and tags of dates: `on 7 May 1984 .`"""
    rng = random.Random(seed)
    for _ in range(count):
        date = [str(rng.randint(1, 28)), rng.choice(MONTHS), str(rng.randint(1900, 2030))]
        yield ["on", *date, "."], ["O", "B-DAY", "B-MONTH", "B-YEAR", "O"]


def squad(count: int, seed: int = 0) -> dict[str, object]:
    """Questions on who lives where, each with its passage."""
    rng = random.Random(seed)
    paragraphs = []
    for number in range(count):
        homes = rng.sample(CITIES, 3)
        context = " ".join(f"Person {number}{letter} lives in {home}." for letter, home in zip("abc", homes, strict=True))
        answer = {"text": homes[1], "answer_start": context.index(homes[1])}
        question = {"id": str(number), "question": f"Where does person {number}b live?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    return {"version": "1.1", "data": [{"title": "homes", "paragraphs": paragraphs}]}


def write_images(folder: Path, count: int, seed: int = 0) -> Path:
    """Grey images of 8×8 whose upper or lower half is bright, `count` of each."""
    from PIL import Image

    rng = random.Random(seed)
    for name, bright in (("lower", range(4, 8)), ("upper", range(4))):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            values = [rng.randint(150, 255) if row in bright else rng.randint(0, 99) for row in range(8) for _ in range(8)]
            image = Image.new("L", (8, 8))
            image.putdata(values)
            image.save(folder / name / f"{number}.png")
    return folder


NAMES = {
    "language-model": "text.txt", "bert-pretraining": "documents.txt", "classification": "labelled.tsv",
    "summarization": "summaries.jsonl", "tagging": "dates.conll", "question-answering": "squad.json",
}  # fmt: skip


def write_examples(task: str, folder: Path, count: int = 60, seed: int = 0) -> Path:
    """Data of a job, in the format a user brings it in: a file, or a folder of images. For translation see `write_pairs`."""
    if task == "image-classification":
        return write_images(folder / f"images-{seed}", count // 2, seed)
    path = folder / f"{seed}-{NAMES[task]}"
    path.write_text(_text_of(task, count, seed), encoding="utf-8")
    return path


def _text_of(task: str, count: int, seed: int) -> str:
    """What a file of `count` examples holds."""
    lines = sentences(6 * count, seed)
    if task == "language-model":
        return "".join(f"{line}\n" for line in lines)
    if task == "bert-pretraining":  # six sentences a document
        return "\n\n".join("\n".join(lines[start : start + 6]) for start in range(0, len(lines), 6)) + "\n"
    if task == "classification":
        return "".join(f"{line}\t{line.split()[1]}\n" for line in lines[:count])
    if task == "summarization":
        documents = [f"{lines[number]} {lines[count + number]}" for number in range(count)]
        return "".join(json.dumps({"document": text, "summary": text.split()[1]}) + "\n" for text in documents)
    if task == "tagging":
        dates = tagged_dates(count, seed)
        return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in zip(*date, strict=True)) for date in dates)
    return json.dumps(squad(count, seed))


def small_recipe(task: str, folder: Path, *overrides: str) -> Recipe:
    """A recipe of a job on a small corpus written into `folder`, with a model that trains in a second."""
    folder.mkdir(parents=True, exist_ok=True)
    if task == "translation":
        source, target = write_pairs(folder, 120)
        data = [f"data.source={source}", f"data.target={target}"]
    else:
        data = [f"data.train={write_examples(task, folder)}"]
    small = [
        "model.layers=1", "model.d_model=16", "model.d_ff=32", "model.heads=2", "model.dropout=0", "tokenizer.size=300",
        "training.steps=6", "training.warmup=2", "training.learning_rate=0.01", "training.batch_tokens=300",
        "training.validate_every=3", "training.checkpoint_every=3", "training.log_every=3", "training.workers=1",
        "training.batch_examples=0",
    ]  # fmt: skip
    own = {
        "translation": LONGER,
        "summarization": LONGER,
        "language-model": ["model.context=16"],
        "bert-pretraining": ["data.max_length=40", "model.max_positions=40"],
        "tagging": ["data.max_length=32", "model.max_positions=32"],
        "question-answering": ["data.max_length=48", "data.stride=12", "model.max_positions=48"],
        "image-classification": ["data.crop=0"],
    }.get(task, [])
    return load_recipe(task, [*data, *small, *own, *overrides])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest rooms begin, so that no test process is left with one at the end."""
    items.sort(key=lambda item: SLOWEST.index(room) if (room := item.path.parent.name) in SLOWEST else len(SLOWEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Each file stays in one test process, so that what it shares is made once; all files about serving share servers."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "serving" if nodeid.startswith("tests/serving/") else super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a folder of a given name once for all test processes: the first one that asks for it creates it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = shared / name, shared / f"{name}.made"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(shared / f"{name}.lock"):
            if not done.exists():
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def trained(once: Once) -> Trained:
    """The run directory of a small model of a job, trained when it is first asked for."""
    from heedful.runtime.screen import Silence
    from heedful.training.run import train

    def learn(run: Path) -> None:
        train(small_recipe(run.name, run.parents[1] / "corpora" / run.name), run, Silence())

    return lambda task: once(f"runs/{task}", learn)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Aligned files with 2,000 pairs."""
    return write_pairs(tmp_path_factory.mktemp("corpus"), 2000)


@pytest.fixture(scope="session")
def heedful() -> Command:
    """Run a `heedful` command in a process of its own."""

    def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "heedful", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=600,
            **options,
        )

    return run


@contextmanager
def standard_input(content: bytes, folder: Path) -> Iterator[None]:
    """What a verb reads from its file descriptor 0 while this lasts."""
    (folder / "stdin").write_bytes(content)
    before, file = os.dup(0), os.open(folder / "stdin", os.O_RDONLY)
    os.dup2(file, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(file)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in this process, expect its exit code or one of several, and give what it wrote to stdout and stderr."""

    def command(*arguments: object, code: int | tuple[int, ...] = 0, stdin: str | bytes = "") -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["heedful", *map(str, arguments)])
        content = stdin.encode() if isinstance(stdin, str) else stdin
        with standard_input(content, tmp_path), pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert (ended.value.code or 0) in (code if isinstance(code, tuple) else (code,)), err
        return out, err

    return command
