"""Labelled examples for any job: read from files or generated, some held out, the others tokenised into a token store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from heedful.data.drops import Drops
from heedful.data.hold_out import hold_out
from heedful.data.prepare import Facts, Reporter, prepare_once
from heedful.data.splits import SPLIT_NAMES
from heedful.data.token_store import Rows, write_rows
from heedful.errors import UsageError
from heedful.jobs.data_settings import ExampleSettings
from heedful.settings import Json

Example = TypeVar("Example")
Reader = Callable[[Path, Drops], Iterator[Example]]
Maker = Callable[[Path, ExampleSettings, int], dict[str, Path]]  # (folder, settings, seed) → split → file


def prepare_examples(
    data: ExampleSettings,
    settings: Mapping[str, Json],
    seed: int,
    extra_paths: Sequence[Path],
    folder: Path,
    reporter: Reporter,
    read: Reader[Example],
    generate: Maker | None,
    text_of: Callable[[Example], str],
    write: Callable[[list[Example], Path], Facts],
    check: Callable[[list[Example], str], None] = lambda examples, path: None,
) -> None:
    """Prepare the examples of these settings in `folder`, unless they are already there.

    `read` reads a user's file, and `generate` writes the files of a built-in corpus instead. Examples with equal `text_of` are
    never on both sides of the split. `check` may reject the training examples of a file. `write` stores the training examples
    in a folder and returns facts for the manifest.
    """
    named = {split: getattr(data, split) for split in SPLIT_NAMES}
    if generate is None and not data.train:
        raise UsageError("no training examples: give data.train=FILE")
    paths = [Path(path) for path in named.values() if path]

    def make(temporary: Path) -> Facts:
        files = {split: Path(path) for split, path in named.items() if path}
        if generate is not None:
            reporter.track("making the examples", None)
            files = generate(temporary, data, seed)
        drops = Drops()
        reporter.track("reading the examples", None)
        examples = {split: list(read(path, drops)) for split, path in files.items()}
        check(examples["train"], str(files["train"]))
        if "valid" not in examples:
            examples["train"], examples["valid"] = hold_out(examples["train"], text_of, data.hold_out)
            reporter.say(f"data: {len(examples['valid']):,} examples held out for validation")
        facts = write(examples["train"], temporary)
        for split in ("valid", "test"):
            rows = [list(vars(e).values()) if hasattr(e, "__dataclass_fields__") else e for e in examples.get(split, [])]
            (temporary / f"{split}.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        summary = f"{len(examples['train']):,} examples"
        reporter.say(f"data: {summary} to train on")
        if drops.counts:
            reporter.say(f"data: {drops.describe()}")
        return {"summary": summary, "dropped": dict(drops.counts), **facts}

    prepare_once({"seed": seed, "data": vars(data), **settings}, [*paths, *extra_paths], folder, reporter, make)


def held_examples(folder: Path, split: str) -> list[Any]:
    """The held-out examples of a prepared folder, in the JSON form of the job."""
    found: list[Any] = json.loads((folder / f"{split}.json").read_text(encoding="utf-8"))
    return found


def write_in_groups(folder: Path, rows: Iterator[Rows], size: int = 4096) -> int:
    """Write an iterator of rows of ids; returns how many there were."""

    def groups() -> Iterator[list[Rows]]:
        group: list[Rows] = []
        for row in rows:
            group.append(row)
            if len(group) == size:
                yield group
                group = []
        yield group

    return write_rows(folder, groups())
