"""Training speed and memory of heedful against four libraries: same shape, same Multi30k batches, interleaved in one run.

    pip install -c constraints.txt '.[bench]'
    pip install -c constraints.txt --no-deps joeynmt
    python benchmarks/train_speed.py --data ../shared/data/multi30k/tok

heedful runs as the real command, `heedful train`, measured through its metrics. A peer is the best simple loop around
Hugging Face Marian, `torch.nn.Transformer`, x-transformers or JoeyNMT, in its own process with one thread per core
(`peers.py`). A library that is not installed is skipped, and the table says so. Speed is target tokens per second, with end
tokens and without padding, over the same steps of the same batches; the first fifth of the steps is warm-up. Memory is the
peak sum over all processes of an engine. Numbers are medians over the rounds.

Every engine computes in float32 and, where the processor supports it, also in bf16, which heedful then uses by default;
peers use PyTorch's autocast. The share of the GEMM peak is the model's FLOP/s (three times the matrix products of the
forward pass, without padding) divided by those of a large matrix product in the same precision on all cores, measured
before every round. Run it on an idle machine without OMP_NUM_THREADS.

The last line is for machines: heedful's speed in its default precision divided by that of the fastest peer in any
precision, and its share of the GEMM peak in float32. The lines before it compare within one precision.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attention_matters import file_of
from heedful.data.collation import Batch
from heedful.models import build_model
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.nn.fast.linear import onednn_product, shortest
from heedful.recipes import load_recipe
from heedful.runtime.cores import cores
from heedful.runtime.device import cpu_has_bf16
from heedful.runtime.run_log import read_metrics
from heedful.runtime.screen import Silence
from heedful.tasks.translation import TranslationTask
from measuring import PAPER, PeakMemory, Transcript, counted, medians, watch
from peers import PEERS, first_batches, missing_modules, parameters_of

STEPS = {"tiny": 40, "base": 8}  # measured per round
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
REPORTS = 5  # per round; the first is not measured
ALIKE = 0.01  # allowed relative difference between the engines' numbers of parameters
# Gives peers what heedful sets itself: malloc keeps freed memory instead of returning it, so the kernel need not zero it
# again. This makes peers faster and use more memory; it is off by default because few users know of it.
KEEP_FREED = ("env", "MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=2147483647")

Engine = tuple[str, str]  # name and precision
Found = dict[Engine, list[dict[str, float]]]  # measurements of each round


@dataclass(frozen=True)
class Job:
    """The work that every engine does at one model size."""

    overrides: list[str]  # heedful's settings
    data: Path  # prepared by heedful
    every: int  # steps per report
    config: Seq2SeqConfig
    batches: list[Batch]  # of the measured steps
    keep_freed: bool  # whether peers run with KEEP_FREED

    @property
    def settings(self) -> dict[str, Any]:
        """The settings passed to a peer."""
        return {"overrides": self.overrides, "data": str(self.data), "warm": self.every, "steps": REPORTS * self.every}


def overrides_of(size: str, arguments: argparse.Namespace, every: int) -> list[str]:
    """heedful's settings for a job that runs until it is stopped."""
    never = 1_000_000
    return [
        f"data.source={file_of(arguments.data, 'train.en')}", f"data.target={file_of(arguments.data, 'train.de')}",
        "tokenizer.size=10000", f"model.preset={size}", "model.norm=post", "model.dropout=0.1",
        f"training.batch_tokens={arguments.batch_tokens}", f"training.workers={arguments.workers}", "training.device=cpu",
        "training.label_smoothing=0.1", "training.schedule=inverse-sqrt", "training.learning_rate=0", "training.warmup=4000",
        "training.clip=1", f"training.steps={never}", f"training.validate_every={never}",
        f"training.checkpoint_every={never}", f"training.log_every={every}", *PAPER,
    ]  # fmt: skip


def prepare_job(size: str, arguments: argparse.Namespace, data: Path) -> Job:
    """Prepare the data, once for all sizes, and collect the batches that will be measured."""
    every = -(-(arguments.steps or STEPS[size]) // (REPORTS - 1))
    overrides = overrides_of(size, arguments, every)
    recipe = load_recipe("multi30k", overrides)
    if not data.exists():
        TranslationTask.prepare(recipe, data, Silence())
    task = TranslationTask(recipe, data)
    assert isinstance(task.config, Seq2SeqConfig)
    return Job(overrides, data, every, task.config, first_batches(task, REPORTS * every)[every:], arguments.keep_freed)


def measure_heedful(job: Job, precision: str) -> dict[str, float]:
    """Run `heedful train` on the prepared data until enough steps are logged."""
    run = job.data.with_name("run")
    shutil.copytree(job.data, run / "data")
    overrides = [*job.overrides, f"training.precision={precision}"]
    command = [sys.executable, "-m", "heedful", "train", "multi30k", *overrides, "--run", str(run)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        memory = PeakMemory(process.pid)
        rows: list[dict[str, Any]] = []
        try:
            while len(rows) < REPORTS and process.poll() is None:
                time.sleep(0.2)
                memory.look()
                rows = read_metrics(run / "metrics.jsonl")
        finally:
            process.terminate()  # heedful finishes its step and exits with its workers
            process.wait()
        if len(rows) < REPORTS:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)}\nfailed:\n{errors.read()[-3000:]}")
    workers = load_recipe(str(run / "recipe.toml")).training.workers  # as given, or as heedful chose
    shutil.rmtree(run)
    tokens, seconds = (rows[REPORTS - 1][key] - rows[0][key] for key in ("tokens", "seconds"))
    with torch.device("meta"):
        parameters = parameters_of(build_model(job.config))
    facts = {"parameters": parameters, "workers": workers, "megabytes": memory.megabytes}
    return {"rate": tokens / seconds, "tokens": tokens, **facts}


def measure_peer(name: str, job: Job, precision: str) -> dict[str, float]:
    """Run one peer in its own process."""
    script = Path(__file__).with_name("peers.py")
    settings = json.dumps({**job.settings, "engine": name, "precision": precision})
    watched = watch([*(KEEP_FREED if job.keep_freed else ()), sys.executable, str(script), settings])
    return {**json.loads(watched.output.splitlines()[-1]), "megabytes": watched.megabytes}


def gemm_peak(precision: str) -> float:
    """FLOP/s of a large matrix product with all threads: the best of several, in float32 by the better of MKL and oneDNN."""
    a, b = torch.randn(2, 2048, 2048).to(DTYPES[precision])
    seconds = [shortest(lambda: a @ b, 8)]
    if precision == "float32" and torch.backends.mkldnn.is_available():
        seconds.append(shortest(lambda: onednn_product(a, b), 8))
    return 2 * 2048**3 / min(seconds)


def flops_per_token(config: Seq2SeqConfig, batches: Sequence[Batch]) -> float:
    """Model FLOPs of training (three times the forward matrix products) per target token, without padding."""
    source = torch.cat([batch.source_mask.sum(1) for batch in batches]).double()
    target = torch.cat([batch.target_mask.sum(1) for batch in batches]).double()
    d, f, wide = config.d_model, config.d_ff, config.heads * config.key_width
    project, feed = 2 * 4 * d * wide, 2 * 2 * d * f
    encoder = config.layers * (source * (project + feed) + 4 * source**2 * wide)
    decoder = config.depth * (
        target * (1.5 * project + feed) + source * project / 2 + 2 * target**2 * wide + 4 * target * source * wide
    )
    output = target * 2 * d * config.target_vocab
    return float(3 * (encoder + decoder + output).sum() / target.sum())


def check_alike(found: Found) -> None:
    """Exit with an error if the engines do not do the same work."""
    facts = {engine: rounds[-1] for engine, rounds in found.items() if rounds}
    first, *others = facts
    for other in others:
        tokens, sizes = ([facts[engine][key] for engine in (first, other)] for key in ("tokens", "parameters"))
        if tokens[0] != tokens[1]:
            raise SystemExit(f"{first[0]} trained on {tokens[0]:,} target tokens, {other[0]} on {tokens[1]:,}")
        if abs(sizes[0] - sizes[1]) > ALIKE * sizes[0]:
            raise SystemExit(f"{first[0]} has {sizes[0]:,} parameters, {other[0]} {sizes[1]:,}")


def measure(
    jobs: dict[str, Job], engines: Sequence[Engine], rounds: int, transcript: Transcript
) -> tuple[dict[str, float], dict[str, Found]]:
    """Run every engine once per round: the GEMM peak of each precision in FLOP/s, and each engine's rounds at each size."""
    found: dict[str, Found] = {size: {engine: [] for engine in engines} for size in jobs}
    peaks: dict[str, list[float]] = {precision: [] for _, precision in engines}
    for number in range(1, rounds + 1):
        for precision, seen in peaks.items():
            seen.append(gemm_peak(precision))
            transcript.say(f"round {number}: GEMM peak {seen[-1] / 1e9:.0f} GFLOP/s in {precision}")
        for size, job in jobs.items():
            for (name, precision), rows in found[size].items():
                rows.append(measure_heedful(job, precision) if name == "heedful" else measure_peer(name, job, precision))
                speed = f"{rows[-1]['rate']:,.0f} tokens/s {rows[-1]['megabytes']:,.0f} MB"
                transcript.say(f"round {number}: {size} {name} {precision} {speed}")
                check_alike(found[size])
    return {precision: statistics.median(seen) for precision, seen in peaks.items()}, found


def versions_of(names: Sequence[str]) -> str:
    packages = {"heedful": "heedful", **{name: peer.package for name, peer in PEERS.items()}}
    return ", ".join(f"{packages[name]} {version(packages[name])}" for name in names)


def ratio(rates: dict[Engine, float], precision: str | None = None) -> float:
    """heedful's speed divided by the fastest peer's in one precision; None: heedful's default against all precisions."""
    ours = precision or ("bf16" if ("heedful", "bf16") in rates else "float32")
    return rates["heedful", ours] / max(
        rate for (name, kind), rate in rates.items() if name != "heedful" and precision in (None, kind)
    )


def main() -> None:
    """Measure, and print one table per model size."""
    possible = [name for name in DTYPES if name == "float32" or cpu_has_bf16()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/multi30k/tok"), help="folder with the text of Multi30k")
    parser.add_argument("--sizes", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--engines", nargs="+", choices=("heedful", *PEERS), default=["heedful", *PEERS])
    parser.add_argument("--precisions", nargs="+", choices=DTYPES, default=possible, help="[float32, and bf16 if supported]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="measured steps per round and size [40 for tiny, 8 for base]")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=0, help="heedful's processes; 0: chosen automatically")
    parser.add_argument("--keep-freed", action="store_true", help="let malloc keep freed memory in peers, too")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    arguments = parser.parse_args()
    missing = {name: modules for name in PEERS if name in arguments.engines and (modules := missing_modules(name))}
    names = [name for name in dict.fromkeys(arguments.engines) if name not in missing]
    if "heedful" not in names or len(names) == 1:
        parser.error("the ratio needs heedful and a peer that is installed among --engines")
    precisions = list(dict.fromkeys(arguments.precisions))
    transcript = Transcript(arguments.output)
    transcript.say(versions_of(names))
    for name, modules in missing.items():
        transcript.say(f"{name} is skipped because {', '.join(modules)} is not installed: {PEERS[name].install}")
    torch.set_num_threads(cores())
    with tempfile.TemporaryDirectory() as folder:
        jobs = {size: prepare_job(size, arguments, Path(folder) / "data") for size in dict.fromkeys(arguments.sizes)}
        engines = [(name, precision) for precision in precisions for name in names]
        peaks, found = measure(jobs, engines, arguments.rounds, transcript)
    titles = {name: peer.title for name, peer in PEERS.items()}
    sizes: dict[str, Any] = {}
    ratios: dict[str | None, list[str]] = {key: [] for key in (*precisions, None)}  # None: heedful's default against any peer
    shares: dict[str | None, list[str]] = {key: [] for key in ratios}
    for size, job in jobs.items():
        cost = flops_per_token(job.config, job.batches)
        rows = {engine: medians(rounds) for engine, rounds in found[size].items()}
        rates = {engine: row["rate"] for engine, row in rows.items()}
        fastest = max(rate for (name, _), rate in rates.items() if name != "heedful")
        for (_, precision), row in rows.items():
            row |= {"ratio": round(row["rate"] / fastest, 4), "peak": round(row["rate"] * cost / peaks[precision], 4)}
        for key in ratios:
            ratios[key].append(f"{size}={ratio(rates, key):.2f}")
            shares[key].append(f"{size}={rows['heedful', key or precisions[0]]['peak']:.2f}")
        by_name = {f"{name} {precision}": row for (name, precision), row in rows.items()}
        sizes[size] = {"flops_per_token": round(cost), "measured_steps": len(job.batches), "engines": by_name}
        peak = ", ".join(f"{peaks[precision] / 1e9:.0f} GFLOP/s in {precision}" for precision in precisions)
        transcript.say(f"\n{size}: {cost / 1e6:.1f} MFLOP per target token; GEMM peak {peak}")
        titles["heedful"] = f"heedful, {counted(round(rows['heedful', precisions[0]]['workers']), 'worker')}"
        transcript.table(
            ("engine", "precision", "parameters", "target tokens/s", "× fastest peer", "share of GEMM peak", "peak memory, MB"),
            [
                (titles[name], precision, f"{row['parameters']:,.0f}", f"{row['rate']:,.0f}", f"{row['ratio']:.2f}",
                 f"{row['peak']:.2f}", f"{row['megabytes']:,.0f}")
                for (name, precision), row in rows.items()
            ] + [(titles[name], "skipped: not installed", "", "", "", "", "") for name in missing],
        )  # fmt: skip
    settings = {key: getattr(arguments, key) for key in ("rounds", "batch_tokens", "keep_freed")} | transcript.circumstances
    rounded_peaks = {precision: round(peak) for precision, peak in peaks.items()}
    summary = {"benchmark": "train_speed", **settings, "gemm_peak": rounded_peaks, "skipped": list(missing), "sizes": sizes}
    transcript.say(json.dumps(summary))
    for key in ratios:
        transcript.say(f"{key + ': ' if key else ''}ratio {' '.join(ratios[key])} peak {' '.join(shares[key])}")


if __name__ == "__main__":
    main()
