"""Turns the user's files into tokenizers, a token store and held-out examples: done once, reused until something changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from heedful.data.dates import generate_dates, language_tags
from heedful.data.drops import Drops
from heedful.data.hold_out import held_out_limit, pair_hash
from heedful.data.parallel import Pair, ParallelFiles
from heedful.data.token_store import ParallelStore, encode_pairs, write_store
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.data import PairSettings, SummarySettings
from heedful.runtime.files import os_error_sentence, sync
from heedful.settings import Json
from heedful.text import Tokenizer

if TYPE_CHECKING:
    from heedful.recipes.settings import TokenizerSettings

VERSION = 2  # of the prepared files; data of another version is prepared again
GENERATED = {"train": None, "valid": 1000, "test": 2000}  # pairs of a generated corpus; None: data.pairs


class Reporter(Protocol):
    """Receives progress messages."""

    def say(self, text: str) -> None: ...

    def track(self, label: str, total: int | None) -> Callable[[int], None]: ...


class PairFiles(Protocol):
    """One or two files of pairs."""

    @property
    def target(self) -> Path | None: ...  # the second file, where there are two

    @property
    def paths(self) -> list[Path]: ...

    def read(self, drops: Drops) -> Iterator[Pair]: ...


class Facts(TypedDict, total=False):
    """What preparing the data found out."""

    summary: str
    labels: list[str]  # the classes
    roles: dict[str, str]  # special tokens of the tokenizer, or of the source's
    target_roles: dict[str, str]
    pairs: int
    dropped: dict[str, int]  # reason → examples


class Fingerprint(TypedDict):
    """What shows whether a file has changed."""

    size: int
    time: int
    hash: str


class Manifest(Facts):
    """The `manifest.json` of a prepared folder."""

    settings: dict[str, Json]
    inputs: dict[str, Fingerprint]


@dataclass(frozen=True)
class Prepared:
    """Everything that training needs from a corpus."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: ParallelStore
    valid: list[Pair]
    test: list[Pair]


def files_of(data: PairSettings, side: str = "") -> ParallelFiles | None:
    """The training (""), "valid_" or "test_" files named in a recipe's data section."""
    source, target = getattr(data, f"{side}source"), getattr(data, f"{side}target")
    return ParallelFiles(Path(source), Path(target) if target else None) if source else None


def prepare_once(
    settings: Mapping[str, Json], paths: Sequence[Path], folder: Path, reporter: Reporter, make: Callable[[Path], Facts]
) -> None:
    """Call `make` to fill `folder` for these settings and input files, unless that has been done already.

    `make` fills a temporary folder and returns facts for the manifest, among them `summary`, a description of the data.
    """
    settings = {"version": VERSION, **settings}
    old = read_manifest(folder) if (folder / "manifest.json").exists() else None
    known = old["inputs"] if old is not None else {}
    inputs = {str(path): _fingerprint(path, known.get(str(path))) for path in paths}
    if old is not None and old["settings"] == settings:
        changed = [path for path, entry in inputs.items() if path in known and entry["hash"] != known[path]["hash"]]
        if changed:
            raise HeedfulError(f"{', '.join(changed)} changed since this run began; give a new --run to train on the new data")
        reporter.say(f"data: {old['summary']}, as prepared before")
        return
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        facts = make(temporary)
        manifest: Manifest = {"settings": settings, "inputs": inputs, **facts}
        (temporary / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for path in [*temporary.iterdir(), temporary]:
            sync(path)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync(folder.parent)


def read_manifest(folder: Path) -> Manifest:
    """What was noted when a folder was prepared."""
    manifest: Manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def prepare(
    data: PairSettings,
    tokenizer: TokenizerSettings,
    seed: int,
    folder: Path,
    reporter: Reporter,
    ready: tuple[Tokenizer, Tokenizer] | None = None,
    ready_files: Sequence[Path] = (),
) -> None:
    """Prepare the parallel corpus of these settings in `folder`, unless it is already there.

    `ready` are the tokenizers of a pre-trained model, read from `ready_files`; they replace those the settings describe.
    """
    named = {side: files_of(data, side) for side in ("", "valid_", "test_")}
    if not data.generate and named[""] is None:
        raise UsageError("no training text: give data.source=FILE data.target=FILE (or a TSV or JSONL as data.source)")
    paths = [path for files in named.values() if files for path in files.paths]
    paths += [*ready_files, *([Path(tokenizer.file)] if tokenizer.file else [])]
    settings: dict[str, Json] = {
        "seed": seed,
        "data": vars(data),
        "tokenizer": vars(tokenizer),
        "ready": ready is not None,
    }

    def make(temporary: Path) -> Facts:
        files = _generate(data, seed, temporary, reporter) if data.generate else named
        return write_pairs(files, data, tokenizer, temporary, reporter, ready=ready)

    prepare_once(settings, paths, folder, reporter, make)


def write_pairs(
    named: Mapping[str, PairFiles | None],
    data: PairSettings | SummarySettings,
    tokenizer: TokenizerSettings,
    temporary: Path,
    reporter: Reporter,
    cut: bool = False,
    ready: tuple[Tokenizer, Tokenizer] | None = None,
) -> Facts:
    """Write tokenizers, token store and held-out pairs of a parallel corpus: "" (training), "valid_" and "test_" files.

    A pair that is too long is dropped, or its source truncated if `cut`.
    """
    training = named[""]
    assert training is not None
    held_out: list[Pair] = []
    drops = Drops()
    limit, count = -1, 0  # a limit of -1 holds nothing out

    def is_held_out(pair: Pair) -> bool:
        return limit >= 0 and pair_hash(pair) <= limit

    if named["valid_"] is None:
        limit, count = held_out_limit(training.read(Drops()), data.hold_out, reporter.track("checking the text", None))
    else:
        tick = reporter.track("checking the text", None)
        for _ in training.read(Drops()):
            count += 1
            tick(1)
    if not count:
        for _ in training.read(drops):
            pass
        hint = "" if training.target else "; if it is one of two aligned files, give data.target too"
        raise HeedfulError(f"no usable pair in {' and '.join(map(str, training.paths))}: {drops.describe()}{hint}")

    source_tokenizer, target_tokenizer = ready or _tokenizers(data, tokenizer, training, is_held_out, count, reporter)
    source_tokenizer.save(temporary / "tokenizer.json")
    if target_tokenizer is not source_tokenizer:
        target_tokenizer.save(temporary / "target_tokenizer.json")

    def train_pairs() -> Iterator[Pair]:
        for pair in training.read(drops):
            if is_held_out(pair):
                held_out.append(pair)
            else:
                yield pair

    tick = reporter.track("tokenising", count)
    kept = write_store(temporary, train_pairs(), source_tokenizer, target_tokenizer, data.max_length, drops, tick, cut)
    if not kept:
        raise HeedfulError(f"no pair is left to train on: {drops.describe() or 'all were held out'}")
    valid_drops, counts = Drops(), {}
    for split in ("valid", "test"):
        files = named[f"{split}_"]
        pairs = list(files.read(valid_drops)) if files else (list(dict.fromkeys(held_out)) if split == "valid" else [])
        # One enormous line would fill memory at the first validation.
        fitting = encode_pairs(pairs, source_tokenizer, target_tokenizer, data.max_length, valid_drops, cut)
        pairs = [pair for pair, _, _ in fitting]
        if not pairs and (files or split == "valid"):
            origin = " and ".join(map(str, files.paths)) if files else "the held-out pairs"
            raise HeedfulError(f"no usable pair in {origin}: {valid_drops.describe()}")
        (temporary / f"{split}.json").write_text(json.dumps(pairs, ensure_ascii=False), encoding="utf-8")
        counts[split] = len(pairs)
    held = "" if named["valid_"] else f", {counts['valid']:,} held out for validation"
    reporter.say(f"data: {kept:,} pairs to train on{held}")
    for found in (drops, valid_drops):
        if found.counts:
            reporter.say(f"data: {found.describe()}")
    return {
        "summary": f"{kept:,} pairs",
        "pairs": kept,
        "dropped": dict(drops.counts + valid_drops.counts),
        "roles": source_tokenizer.roles,
        "target_roles": target_tokenizer.roles,
    }


def load_prepared(folder: Path) -> Prepared:
    """Load what `prepare` wrote to a folder."""
    manifest = read_manifest(folder)
    source = Tokenizer.load(folder / "tokenizer.json", manifest["roles"])
    other = folder / "target_tokenizer.json"

    def pairs(split: str) -> list[Pair]:
        return [(s, t) for s, t in json.loads((folder / f"{split}.json").read_text(encoding="utf-8"))]

    target = Tokenizer.load(other, manifest["target_roles"]) if other.exists() else source
    return Prepared(source, target, ParallelStore(folder), pairs("valid"), pairs("test"))


def _fingerprint(path: Path, known: Fingerprint | None) -> Fingerprint:
    """Size, modification time and content hash of a file; if size and time are unchanged, the known hash is reused."""
    try:
        stat = path.stat()
        if path.is_fifo():
            raise HeedfulError(f"{path} is a pipe, but training text is read more than once; put it in a file")
        if known and path.is_file() and (known["size"], known["time"]) == (stat.st_size, stat.st_mtime_ns):
            return known
        digest = hashlib.blake2b(digest_size=16)
        if path.is_dir():  # of images: hash names, sizes and times of its files instead of their content
            for file_path in sorted(found for found in path.rglob("*") if found.is_file()):
                inner = file_path.stat()
                digest.update(os.fsencode(file_path.relative_to(path)) + f" {inner.st_size} {inner.st_mtime_ns}\n".encode())
        else:
            with open(path, "rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedfulError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise HeedfulError(f"{path} is a directory; a text file is needed") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    return {"size": stat.st_size, "time": stat.st_mtime_ns, "hash": digest.hexdigest()}


def _generate(data: PairSettings, seed: int, folder: Path, reporter: Reporter) -> dict[str, ParallelFiles | None]:
    """Write the generated corpus as TSV files, which `prepare` then reads and people can inspect."""
    files: dict[str, ParallelFiles | None] = {}
    for split, fixed in GENERATED.items():
        count = data.pairs if fixed is None else fixed
        tick = reporter.track(f"writing dates ({split})", count)
        path = folder / f"{data.generate}.{split}.tsv"
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            for number, (source, target) in enumerate(generate_dates(split, count, seed), 1):
                file.write(f"{source}\t{target}\n")
                if number % 1000 == 0:
                    tick(1000)
        files["" if split == "train" else f"{split}_"] = ParallelFiles(path)
    return files


def _tokenizers(
    data: PairSettings | SummarySettings,
    settings: TokenizerSettings,
    training: PairFiles,
    is_held_out: Callable[[Pair], bool],
    count: int,
    reporter: Reporter,
) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer: trained on the training pairs, or read from a file."""
    if settings.file:
        ready = Tokenizer.load(settings.file)
        return ready, ready
    stride = -(-count // settings.sample)

    def texts(*sides: int) -> Iterator[str]:
        tick = reporter.track(f"learning a vocabulary ({settings.kind})", count)
        for number, pair in enumerate(training.read(Drops())):
            tick(1)
            if number % stride == 0 and not is_held_out(pair):
                yield from (pair[side] for side in sides)

    tags = language_tags() if data.generate == "dates" else []
    if settings.joint:
        joint = Tokenizer.train(settings.kind, texts(0, 1), settings.size, tags)
        return joint, joint
    return (
        Tokenizer.train(settings.kind, texts(0), settings.size, tags),
        Tokenizer.train(settings.kind, texts(1), settings.size),
    )
