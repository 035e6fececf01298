"""Training speed of heedful and of Hugging Face Marian: same size, same batches, interleaved rounds in one run.

    python benchmarks/train_speed.py --source train.en --target train.de --size tiny

heedful is the real command, `heedful train`, watched through its metrics. A peer is the loop people write: forward,
label-smoothed cross-entropy, backward, clip, Adam, with all cores as threads. Tokens are real target tokens, ends
included, never padding.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from heedful.data.batches import Batch, Position, batches_from, special_ids
from heedful.data.prepare import load_prepared, prepare
from heedful.models.presets import find_preset
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.recipes import Recipe, load_recipe
from heedful.training.screen import Screen

WARM, MEASURED = 10, {"tiny": 40, "base": 6}  # steps
PEERS = ("marian",)


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """The job every engine does."""
    return load_recipe("translation", overrides_of(arguments))


def overrides_of(arguments: argparse.Namespace) -> list[str]:
    return [
        f"data.source={arguments.source}", f"data.target={arguments.target}", f"model.preset={arguments.size}",
        "tokenizer.size=10000", f"training.batch_tokens={arguments.batch_tokens}", "training.steps=100000",
        "training.validate_every=100000", "training.checkpoint_every=100000", "training.log_every=10", "model.norm=post",
        "model.dropout=0.1", "training.label_smoothing=0.1", "training.warmup=4000", "training.learning_rate=0",
        f"training.workers={arguments.workers}",
    ]  # fmt: skip


def measure_heedful(arguments: argparse.Namespace, data: Path, run: Path) -> dict[str, float]:
    """Run `heedful train` on the prepared data until enough steps are logged."""
    shutil.copytree(data, run / "data")
    command = [sys.executable, "-m", "heedful", "train", "translation", *overrides_of(arguments), "--run", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    metrics = run / "metrics.jsonl"
    wanted, peak = (WARM + MEASURED[arguments.size]) // 10 + 1, 0
    rows: list[dict[str, Any]] = []
    while len(rows) < wanted and process.poll() is None:
        time.sleep(0.2)
        peak = max(peak, memory_with_children(process.pid))
        rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if len(rows) < wanted:
        raise SystemExit(f"heedful failed: {process.stderr.read().decode() if process.stderr else ''}")
    rates = [row["tokens_per_second"] for row in rows[1:]]
    return {"tokens_per_second": statistics.median(rates), "megabytes": peak / 1e6}


def memory_with_children(pid: int) -> int:
    """Bytes resident in a process and the workers it started, shared pages counted once a process."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if pid in (int(folder.name), parent):
                total += int((folder / "statm").read_text().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            continue
    return total


def measure_peer(arguments: argparse.Namespace, data: Path) -> dict[str, float]:
    """Run one peer in a process of its own."""
    command = [sys.executable, __file__, "--engine", arguments.peer, "--data", str(data), *forwarded(arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def forwarded(arguments: argparse.Namespace) -> list[str]:
    keys = ("source", "target", "size", "batch_tokens", "workers")
    return [word for key in keys for word in (f"--{key.replace('_', '-')}", str(getattr(arguments, key)))]


def build_marian(config: Seq2SeqConfig, pad: int, bos: int, eos: int) -> torch.nn.Module:
    """Marian of the same shape: shared embeddings, sinusoids, post-norm, ReLU."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=config.source_vocab, d_model=config.d_model, encoder_layers=config.layers,
            decoder_layers=config.depth, encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff,
            encoder_attention_heads=config.heads, decoder_attention_heads=config.heads, dropout=config.dropout,
            attention_dropout=0.0, activation_dropout=0.0, activation_function="relu", scale_embedding=True,
            max_position_embeddings=512, pad_token_id=pad, decoder_start_token_id=bos, eos_token_id=eos,
        )
    )  # fmt: skip


def run_peer(arguments: argparse.Namespace) -> dict[str, float]:
    """Inside the peer's process: train, and tell tokens per second and peak memory."""
    recipe, prepared = recipe_of(arguments), load_prepared(Path(arguments.data))
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    config = Seq2SeqConfig(source.size, target.size, **find_preset(arguments.size).model)
    torch.manual_seed(1)
    model = build_marian(config, target.pad, target.bos, target.eos).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    special = special_ids(source, target)
    stream = batches_from(prepared.train, special, recipe.training.batch_tokens, recipe.training.seed, Position())
    rates = []
    for _ in range((WARM + MEASURED[arguments.size]) // 10 + 1):
        tokens, started = 0, time.perf_counter()
        for _ in range(10):
            batch = next(stream)[1]
            assert batch is not None
            tokens += train_step(model, optimizer, batch)
        rates.append(tokens / (time.perf_counter() - started))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"tokens_per_second": statistics.median(rates[1:]), "megabytes": peak / 1e6}


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> int:
    """One step of the usual loop; returns its target tokens."""
    logits = model(
        input_ids=batch.source, attention_mask=batch.source_mask.long(), decoder_input_ids=batch.target_in, use_cache=False
    ).logits
    labels = batch.target_out.masked_fill(~batch.target_mask, -100)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return int(batch.target_mask.sum())


def gemm_peak() -> float:
    """FLOP/s of a large float32 product with all threads: the best of several."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = 0.0
    for _ in range(8):
        started = time.perf_counter()
        a @ b
        best = max(best, 2 * 2048**3 / (time.perf_counter() - started))
    return best


def flops_per_token(config: Seq2SeqConfig, data: Path) -> float:
    """Model FLOPs of training (three times the forward products) per target token, padding not counted."""
    store = load_prepared(data).train
    source, target = store.source.lengths + 1.0, store.target.lengths + 1.0
    d, f, wide = config.d_model, config.d_ff, config.heads * config.key_width
    project, feed = 2 * 4 * d * wide, 2 * 2 * d * f
    encoder = config.layers * (source * (project + feed) + 4 * source**2 * wide)
    decoder = config.depth * (
        target * (1.5 * project + feed) + source * project / 2 + 2 * target**2 * wide + 4 * target * source * wide
    )
    output = target * 2 * d * config.target_vocab
    return float(3 * (encoder + decoder + output).sum() / target.sum())


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--size", choices=sorted(MEASURED), default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(run_peer(arguments)))
        return
    arguments.source, arguments.target = str(Path(arguments.source).absolute()), str(Path(arguments.target).absolute())
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        recipe = recipe_of(arguments)
        prepare(recipe.data, recipe.tokenizer, recipe.training.seed, data, Screen())
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ("heedful", *PEERS)}
        peaks = []
        for round_number in range(arguments.rounds):
            peaks.append(gemm_peak())
            for name, rows in found.items():
                arguments.peer = name
                if name == "heedful":
                    rows.append(measure_heedful(arguments, data, Path(folder) / f"run-{round_number}"))
                else:
                    rows.append(measure_peer(arguments, data))
                print(f"round {round_number + 1}: {name} {rows[-1]['tokens_per_second']:,.0f} tokens/s", flush=True)
        size = load_prepared(data).source_tokenizer.size
        config = Seq2SeqConfig(size, size, **find_preset(arguments.size).model)
        cost = flops_per_token(config, data)
    peak = statistics.median(peaks)
    rate = {name: statistics.median(row["tokens_per_second"] for row in rows) for name, rows in found.items()}
    print(f"\n{arguments.size}: {cost / 1e6:.1f} MFLOP per target token; GEMM peak {peak / 1e9:.0f} GFLOP/s\n")
    print("| engine | target tokens/s | share of GEMM peak | peak memory, MB |\n|---|---|---|---|")
    for name, rows in found.items():
        memory = statistics.median(row["megabytes"] for row in rows)
        print(f"| {name} | {rate[name]:,.0f} | {rate[name] * cost / peak:.2f} | {memory:,.0f} |")
    fastest = max(rate[name] for name in PEERS)
    share = rate["heedful"] * cost / peak
    print(f"\nratio {arguments.size}={rate['heedful'] / fastest:.2f} peak {arguments.size}={share:.2f}")


if __name__ == "__main__":
    main()
