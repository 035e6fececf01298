"""Parallel text made ready for training: tokenizers, a token store, and held-out pairs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.data.check import check
from heedful.data.dates import generate_dates, language_tags
from heedful.data.drops import Drops
from heedful.data.hold_out import held_out_limit, pair_hash
from heedful.data.lines import count_lines
from heedful.data.monolingual import SyntheticPairs
from heedful.data.parallel import Pair, ParallelFiles
from heedful.data.prepare import Facts, Reporter, prepare_once, read_manifest
from heedful.data.ready_tokenizers import PairFiles, ReadyTokenizers, SampledTexts
from heedful.data.token_store import ParallelStore, encode_pairs, write_store
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.data_settings import PairSettings, SummarySettings
from heedful.settings import Json
from heedful.text import Tokenizer

if TYPE_CHECKING:
    from heedful.recipes.settings import TokenizerSettings

GENERATED = {"train": None, "valid": 1000, "test": 2000}  # pairs of a generated corpus; None: data.pairs

CHECKED = 30_000  # lines that are looked at before training, at most
DROPPED = ("empty", "control", "unreadable")  # findings about pairs that are dropped, which is reported anyway


@dataclass(frozen=True)
class Prepared:
    """Everything that training needs from a corpus."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: ParallelStore
    valid: list[Pair]
    test: list[Pair]


def files_of(data: PairSettings) -> dict[str, ParallelFiles | None]:
    """The files of each split that a recipe's data section names."""

    def files(source: str, target: str) -> ParallelFiles | None:
        return ParallelFiles(Path(source), Path(target) if target else None, data.reverse) if source else None

    return {
        "train": files(data.source, data.target),
        "valid": files(data.valid_source, data.valid_target),
        "test": files(data.test_source, data.test_target),
    }


def training_files(data: PairSettings) -> ParallelFiles:
    """The files of the pairs to train on; an error if none are named."""
    files = files_of(data)["train"]
    if files is None:
        raise UsageError("no training text: give data.source=FILE data.target=FILE (or a TSV or JSONL as data.source)")
    return files


def prepare_pairs(
    data: PairSettings,
    tokenizer: TokenizerSettings,
    seed: int,
    folder: Path,
    reporter: Reporter,
    ready: ReadyTokenizers | None = None,
    synthetic: SyntheticPairs | None = None,
) -> None:
    """Prepare the parallel corpus of these settings in `folder`, unless it is already there.

    The tokenizers of a pre-trained model replace those that the settings describe.
    """
    named = files_of(data)
    if not data.generate:
        training_files(data)
    paths = [path for files in named.values() if files for path in files.paths]
    paths += [
        *(synthetic.paths if synthetic else ()),
        *(ready.files if ready else ()),
        *([Path(tokenizer.file)] if tokenizer.file else []),
    ]
    settings: dict[str, Json] = {
        "seed": seed,
        "data": vars(data),
        "tokenizer": vars(tokenizer),
        "ready": ready is not None,
    }

    def make(temporary: Path) -> Facts:
        files = _generate(data, seed, temporary, reporter) if data.generate else named
        if not data.generate:
            report_check(named, reporter)
        return write_pairs(files, data, tokenizer, temporary, reporter, ready=ready, synthetic=synthetic)

    prepare_once(settings, paths, folder, reporter, make)


def report_check(named: Mapping[str, ParallelFiles | None], reporter: Reporter) -> None:
    """Say what is wrong with the pairs to train on; nothing is left out because of it.

    Of a large corpus only some blocks of lines are looked at, so that it takes seconds.
    """
    training, others = named["train"], [files for split in ("valid", "test") if (files := named[split])]
    assert training is not None
    held_out = (source for files in others for source, _ in files.read(Drops()))
    lines = count_lines(training.source)
    stride = -(-lines // CHECKED)
    report, _ = check(training, held_out, reporter.track("looking at the pairs", None), stride)
    found = [finding for finding in report.findings if finding.kind not in DROPPED]
    for finding in found:
        reporter.say(f"check: {finding.describe()}")
    if stride > 1:
        reporter.say(f"check: looked at {report.pairs:,} of about {lines:,} pairs; `heedful check` looks at all of them")
    if found:
        names = " ".join(shlex.quote(str(path)) for path in training.paths)
        reporter.say(f"check: all are trained on; `heedful check {names} --clean FOLDER` writes what is worth keeping")


def write_pairs(
    named: Mapping[str, PairFiles | None],
    data: PairSettings | SummarySettings,
    tokenizer: TokenizerSettings,
    temporary: Path,
    reporter: Reporter,
    cut: bool = False,
    ready: ReadyTokenizers | None = None,
    synthetic: SyntheticPairs | None = None,
) -> Facts:
    """Write tokenizers, token store and held-out pairs of a corpus; `named` are the files of "train", "valid" and "test".

    A pair that is too long is dropped, or its source truncated if `cut`. Synthetic pairs are trained on, too, and the
    others so often that they are about half.
    """
    training = named["train"]
    assert training is not None
    limit, count = _hold_out_limit(training, data.hold_out, named["valid"] is None, reporter)

    def is_held_out(pair: Pair) -> bool:
        return limit >= 0 and pair_hash(pair) <= limit

    made = sum(1 for _ in synthetic.read(Drops())) if synthetic else 0
    repeats = max(1, round(made / count))
    texts = SampledTexts(training, is_held_out, count + made, tokenizer.sample, synthetic)
    tokenizers = ready.of(texts, tokenizer, temporary, reporter) if ready else _tokenizers(data, tokenizer, texts, reporter)
    _save_tokenizers(tokenizers, temporary)
    drops, held_out = Drops(), dict[Pair, None]()  # a set that keeps its order

    def train_pairs() -> Iterator[Pair]:
        for number in range(repeats):
            for pair in training.read(Drops() if number else drops):
                if not is_held_out(pair):
                    yield pair
                else:
                    held_out[pair] = None
        if synthetic:
            hidden = {source for source, _ in held_out}
            yield from (pair for pair in synthetic.read(drops) if pair[0] not in hidden)

    tick = reporter.track("tokenising", repeats * count + made)
    kept = write_store(temporary, train_pairs(), *tokenizers, data.max_length, drops, tick, cut)
    if not kept:
        raise HeedfulError(f"no pair is left to train on: {drops.describe() or 'all were held out'}")
    held_drops, counts = Drops(), {}
    for split in ("valid", "test"):
        files = named[split]
        if files is None and split == "test":
            pairs = []
        else:
            found = list(held_out) if files is None else list(files.read(held_drops))
            # One enormous line would fill memory at the first validation.
            pairs = [pair for pair, _, _ in encode_pairs(found, *tokenizers, data.max_length, held_drops, cut)]
            if not pairs:
                origin = " and ".join(map(str, files.paths)) if files else "the held-out pairs"
                raise HeedfulError(f"no usable pair in {origin}: {held_drops.describe()}")
        (temporary / f"{split}.json").write_text(json.dumps(pairs, ensure_ascii=False), encoding="utf-8")
        counts[split] = len(pairs)
    held = "" if named["valid"] else f", {counts['valid']:,} held out for validation"
    if made:
        often = f"each {repeats} times" if repeats > 1 else "once each"
        reporter.say(f"data: {count:,} pairs, {often}, and {made:,} that were made of plain text")
    reporter.say(f"data: {kept:,} pairs to train on{held}")
    for dropped in (drops, held_drops):
        if dropped.counts:
            reporter.say(f"data: {dropped.describe()}")
    return {
        "summary": f"{kept:,} pairs",
        "pairs": kept,
        "dropped": dict(drops.counts + held_drops.counts),
        "roles": tokenizers[0].roles,
        "target_roles": tokenizers[1].roles,
    }


def _hold_out_limit(training: PairFiles, wanted: int, hold_out: bool, reporter: Reporter) -> tuple[int, int]:
    """(limit, pairs): pairs whose hash is at most `limit` are held out, none if it is -1; and how many usable pairs there are."""
    tick = reporter.track("checking the text", None)
    limit, count = -1, 0
    if hold_out:
        limit, count = held_out_limit(training.read(Drops()), wanted, tick)
    else:
        for _ in training.read(Drops()):
            count += 1
            tick(1)
    if not count:
        drops = Drops()
        for _ in training.read(drops):
            pass
        tab = "" if training.target or training.is_json else "; a table needs a tab between a source and its target"
        hint = tab if training.target else f"{tab}; if it is one of two aligned files, give data.target too"
        raise HeedfulError(f"no usable pair in {' and '.join(map(str, training.paths))}: {drops.describe()}{hint}")
    return limit, count


def _save_tokenizers(tokenizers: tuple[Tokenizer, Tokenizer], folder: Path) -> None:
    source, target = tokenizers
    source.save(folder / "tokenizer.json")
    if target is not source:
        target.save(folder / "target_tokenizer.json")


def load_prepared(folder: Path) -> Prepared:
    """Load what `prepare` wrote to a folder."""
    manifest = read_manifest(folder)
    source = Tokenizer.load(folder / "tokenizer.json", manifest["roles"])
    other = folder / "target_tokenizer.json"

    def pairs(split: str) -> list[Pair]:
        return [(s, t) for s, t in json.loads((folder / f"{split}.json").read_text(encoding="utf-8"))]

    target = Tokenizer.load(other, manifest["target_roles"]) if other.exists() else source
    return Prepared(source, target, ParallelStore(folder), pairs("valid"), pairs("test"))


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
        files[split] = ParallelFiles(path)
    return files


def _tokenizers(
    data: PairSettings | SummarySettings, settings: TokenizerSettings, texts: SampledTexts, reporter: Reporter
) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer: trained on the training pairs, or read from a file."""
    if settings.file:
        ready = Tokenizer.load(settings.file)
        return ready, ready

    def train(*sides: int, tags: Sequence[str] = ()) -> Tokenizer:
        tick = reporter.track(f"learning a vocabulary ({settings.kind})", texts.count)
        return Tokenizer.train(settings.kind, texts.of(*sides, tick=tick), settings.size, tags)

    tags = language_tags() if data.generate == "dates" else []
    if settings.joint:
        joint = train(0, 1, tags=tags)
        return joint, joint
    return train(0, tags=tags), train(1)
