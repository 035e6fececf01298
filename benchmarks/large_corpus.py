"""A corpus too large to hold in memory: preparation, restart, memory per process, and waiting for data.

    python benchmarks/large_corpus.py --folder /some/disk/large --pairs 20000000

The pairs are generated: made-up words with Zipfian frequencies, and a target that translates them one by one and swaps some
neighbours. The command is the real one, `heedful train` with a tiny model, stopped as by Ctrl-C and started again; before
the restart, the prepared files are dropped from the page cache, so that they are read from disk.

Everything is repeated with a small corpus. Most memory of a process is for Python, PyTorch and the model, which are the
same for both, so the difference is what the corpus takes. Own memory is what a process must hold: anonymous pages, and its
share of memory shared between processes. Pages of mapped files (libraries, and the tokens of the corpus) can be evicted
when memory is short. Both are proportional set sizes; resident memory counts shared pages in full. Memory is sampled twice
per second.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.data.batches import POOL, Position, batches_from
from heedful.data.collation import special_ids
from heedful.data.prepare_pairs import load_prepared
from heedful.recipes import load_recipe
from heedful.runtime.run_log import read_metrics
from measuring import PAPER, Transcript, read_process, with_children

WORDS = 30_000  # per language
BLOCK = 50_000  # pairs generated at a time
BYTES_PER_PAIR = 210  # on disk, as text and as tokens
NEVER = 10_000_000  # a step that is never reached
MEMORY_KINDS = {"own": "own memory", "file": "mapped files", "resident": "resident"}
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def made_up_words(backwards: bool) -> list[str]:
    """Words of one to three syllables, shortest first; with `backwards`, the words of the other language."""
    syllables = [syllable[::-1] for syllable in SYLLABLES] if backwards else SYLLABLES
    found, longest = [""], [""]
    while len(found) <= WORDS:
        longest = [word + syllable for word in longest for syllable in syllables]
        found += longest
    return found[1 : WORDS + 1]


def make_pairs(block: int, count: int, cumulative_weights: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentences and their translations as concatenated word indices; WORDS is added to the last word of a sentence."""
    rng = np.random.default_rng([1, block])
    lengths = rng.integers(3, 18, count)
    ends = np.cumsum(lengths)
    source = np.searchsorted(cumulative_weights, rng.random(ends[-1]) * cumulative_weights[-1])
    place = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    target = source.copy()
    # Words 0 and 1, 2 and 3, … of a sentence swap places in the translation if the first one is divisible by 3.
    moved = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(lengths, lengths)) & (source % 3 == 0))
    target[moved], target[moved + 1] = source[moved + 1], source[moved]
    source[ends - 1] += WORDS
    target[ends - 1] += WORDS
    return source, target


def write_corpus(folder: Path, pairs: int) -> tuple[Path, Path]:
    """The two files of a corpus; existing ones are reused."""
    paths = folder / f"{pairs}.source", folder / f"{pairs}.target"
    if all(path.exists() for path in paths):
        return paths
    tables = [[f"{word} " for word in words] + [f"{word}\n" for word in words] for words in map(made_up_words, (False, True))]
    cumulative_weights = np.cumsum(1.0 / (np.arange(WORDS) + 2.7))

    unfinished = [path.with_name(f"{path.name}.tmp") for path in paths]
    with open(unfinished[0], "w", encoding="ascii") as left, open(unfinished[1], "w", encoding="ascii") as right:
        for start in range(0, pairs, BLOCK):
            sides = make_pairs(start // BLOCK, min(BLOCK, pairs - start), cumulative_weights)
            for file, table, numbers in zip((left, right), tables, sides, strict=True):
                file.write("".join(map(table.__getitem__, numbers.tolist())))
    for path, new in zip(unfinished, paths, strict=True):
        path.replace(new)
    return paths


@dataclass
class Memory:
    """Peak memory of a process in bytes, by kind."""

    own: int = 0
    file: int = 0
    resident: int = 0

    def look(self, pid: int) -> None:
        """Sample the memory of a process and update the peaks."""
        with suppress(OSError):  # it has just ended
            lines = read_process(pid, "smaps_rollup").splitlines()[1:]
            sizes = {name: int(size) * 1024 for name, size, _ in map(str.split, lines)}
            self.own = max(self.own, sizes["Pss_Anon:"] + sizes["Pss_Shmem:"])
            self.file = max(self.file, sizes["Pss_File:"])
            self.resident = max(self.resident, sizes["Rss:"])


@dataclass
class Course:
    """Measurements of one run of the command. Memory is listed by process, the leader first."""

    started: float
    preparation: float | None = None  # seconds until the data was ready
    preparing: Memory = field(default_factory=Memory)
    training: list[Memory] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)  # of metrics.jsonl, one per step

    def look(self, pid: int, ready: bool) -> None:
        """Sample the memory of all processes."""
        if not ready:
            self.preparing.look(pid)
            return
        for number, process in enumerate(with_children(pid)):
            if number == len(self.training):
                self.training.append(Memory())
            self.training[number].look(process)


def train_for(overrides: Sequence[str], run: Path, steps: int) -> Course:
    """Run `heedful train` for `steps` more steps, then stop it so that it saves and exits."""
    command = [sys.executable, "-m", "heedful", "train", "multi30k", *overrides, "--run", str(run)]
    done = len(read_metrics(run / "metrics.jsonl"))
    manifest = run / "data" / "manifest.json"
    new = not manifest.exists()
    course = Course(time.time())
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while len(course.rows) < steps and process.poll() is None:
                ready = manifest.exists()
                if new and ready and course.preparation is None:
                    course.preparation = time.time() - course.started
                course.look(process.pid, ready)
                course.rows = read_metrics(run / "metrics.jsonl")[done:]
                time.sleep(0.5)
        finally:
            process.terminate()
            process.wait()
        if len(course.rows) < steps:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}\nfailed:\n{errors.read()[-3000:]}")
    return course


def forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache, so that they are next read from disk."""
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def waiting(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Fraction of the step time spent waiting for data, and the longest wait, without the first step."""
    waits = [row["waiting_for_data"] * row["seconds_per_step"] for row in rows[1:]]
    return {
        "waiting_share": sum(waits) / sum(row["seconds_per_step"] for row in rows[1:]),
        "longest_wait": max(waits),
        "seconds_per_step": statistics.median(row["seconds_per_step"] for row in rows[1:]),
    }


def reading(overrides: Sequence[str], data: Path, workers: int) -> dict[str, float]:
    """Read one process's share of the batches without training: tokens per second, and the longest pause.

    It reads beyond the first pool of pairs, because sorting the next pool is the longest pause within an epoch.
    """
    recipe, prepared = load_recipe("multi30k", overrides), load_prepared(data)
    special = special_ids(prepared.source_tokenizer, prepared.target_tokenizer)
    size, seed = recipe.training.batch_tokens, recipe.training.seed
    wanted, seen, tokens = min(len(prepared.train), POOL + POOL // 4) // workers, 0, 0
    times = [time.perf_counter()]
    for _, batch in batches_from(prepared.train, special, size, seed, Position(), 0, workers):
        times.append(time.perf_counter())
        if batch is not None:
            seen, tokens = seen + len(batch.source), tokens + int(batch.target_mask.sum())
        if seen >= wanted:
            break
    pauses = [after - before for before, after in pairwise(times)]
    return {"alone_tokens_per_second": tokens / sum(pauses[1:]), "first_pause": pauses[0], "longest_pause": max(pauses[1:])}


def measure(folder: Path, pairs: int, arguments: argparse.Namespace, transcript: Transcript) -> dict[str, Any]:
    """All measurements of a corpus with this number of pairs."""
    started = time.perf_counter()
    source, target = write_corpus(folder, pairs)
    text = source.stat().st_size + target.stat().st_size
    transcript.say(f"{pairs:,} pairs: {text / 1e6:,.0f} MB of text in {time.perf_counter() - started:.0f} s")
    run = folder / f"{pairs}.run"
    shutil.rmtree(run, ignore_errors=True)
    overrides = [
        f"data.source={source}", f"data.target={target}", f"training.workers={arguments.workers}", "model.dropout=0.1",
        f"training.batch_tokens={arguments.batch_tokens}", f"tokenizer.size={arguments.vocabulary}", "training.log_every=1",
        *(f"training.{key}={NEVER}" for key in ("steps", "validate_every", "checkpoint_every")), *PAPER,
    ]  # fmt: skip
    first = train_for(overrides, run, arguments.steps)
    transcript.say(f"{pairs:,} pairs: prepared in {first.preparation:.0f} s, trained for {len(first.rows)} steps and stopped")
    forget(run / "data")
    second = train_for(overrides, run, arguments.steps)
    start = second.rows[0]["time"] - second.started
    transcript.say(f"{pairs:,} pairs: first step after the restart in {start:.1f} s")
    peaks = [
        {kind: max(vars(memory)[kind] for memory in both) for kind in MEMORY_KINDS}
        for both in zip(first.training, second.training, strict=True)
    ]
    return {
        "text_bytes": text,
        "prepared_bytes": sum(path.stat().st_size for path in (run / "data").iterdir()),
        "preparation_seconds": first.preparation,
        "preparation_own": first.preparing.own,
        "second_start_seconds": start,
        "processes": peaks,
        **waiting(second.rows),
        **reading(overrides, run / "data", arguments.workers),
    }


def check_room(folder: Path, pairs: int, transcript: Transcript) -> None:
    """Report how much disk space will be used, and exit if there is not enough."""
    need, free = pairs * BYTES_PER_PAIR / 1e9, shutil.disk_usage(folder).free / 1e9
    transcript.say(f"about {need:.1f} GB will be written to --folder, which has {free:.1f} GB free, and kept there")
    if need > 0.9 * free:
        raise SystemExit(f"there is not enough space in {folder}; give another --folder or fewer --pairs")


def print_table(found: dict[int, dict[str, Any]], transcript: Transcript) -> None:
    """One row per measurement, one column per corpus."""

    def megabytes(value: float) -> str:
        return f"{value / 1e6:,.0f}"

    corpora = list(found.values())
    processes = ["leader", *(f"worker {number}" for number in range(1, len(corpora[0]["processes"])))]
    shown: dict[str, list[str]] = {
        "text, MB": [megabytes(row["text_bytes"]) for row in corpora],
        "prepared, MB": [megabytes(row["prepared_bytes"]) for row in corpora],
        "preparation, s": [f"{row['preparation_seconds']:,.0f}" for row in corpora],
        "preparation: own memory, MB": [megabytes(row["preparation_own"]) for row in corpora],
        "restart to its first step, s": [f"{row['second_start_seconds']:.1f}" for row in corpora],
    }
    for number, name in enumerate(processes):
        for kind, title in MEMORY_KINDS.items():
            shown[f"training: {name}, {title}, MB"] = [megabytes(row["processes"][number][kind]) for row in corpora]
    shown |= {
        "ms per step": [f"{1e3 * row['seconds_per_step']:.0f}" for row in corpora],
        "step time spent waiting for data": [f"{row['waiting_share']:.2%}" for row in corpora],
        "longest wait of a step, ms": [f"{1e3 * row['longest_wait']:.0f}" for row in corpora],
        "batches alone, target tokens/s per process": [f"{row['alone_tokens_per_second']:,.0f}" for row in corpora],
        "batches alone, until the first, ms": [f"{1e3 * row['first_pause']:.0f}" for row in corpora],
        "batches alone, longest pause after it, ms": [f"{1e3 * row['longest_pause']:.0f}" for row in corpora],
    }
    transcript.table(("", *(f"{pairs:,} pairs" for pairs in found)), [(name, *cells) for name, cells in shown.items()])


def main() -> None:
    """Measure both corpora and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the text and the runs are written; needs gigabytes")
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--small", type=int, default=20_000, help="pairs of the corpus to compare with")
    parser.add_argument("--steps", type=int, default=200, help="steps of each of the two runs")
    parser.add_argument("--workers", type=int, default=2, help="training processes")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    arguments = parser.parse_args()
    if arguments.small >= arguments.pairs or arguments.steps < 2:
        parser.error("--small must be less than --pairs, and --steps at least 2")
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    transcript = Transcript(arguments.output)
    check_room(folder, arguments.small + arguments.pairs, transcript)
    found = {pairs: measure(folder, pairs, arguments, transcript) for pairs in (arguments.small, arguments.pairs)}
    print_table(found, transcript)
    small, large = (max(process["own"] for process in row["processes"]) for row in found.values())
    transcript.say(f"a process holds {(large - small) / 2**20:,.0f} MiB more for the large corpus (the goal is under 2,048)")
    settings = {key: vars(arguments)[key] for key in ("pairs", "small", "steps", "workers", "batch_tokens", "vocabulary")}
    summary = {**settings, **transcript.circumstances, "corpora": found, "beyond_model_bytes": large - small}
    transcript.say(json.dumps({"benchmark": "large_corpus", **summary}))


if __name__ == "__main__":
    main()
