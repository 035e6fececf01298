"""A character-level GPT on tiny-shakespeare: heedful against the GPT-2 of transformers, quality and speed in one run.

    python benchmarks/language_model.py --data ../shared/data/tinyshakespeare/input.txt.gz

This is nanoGPT's CPU setting: 4 layers, 4 heads, width 128, context 64, 12 windows per step, 2,000 steps, no dropout; its
published validation loss is 1.88 nats per character. heedful runs as the real command, `heedful train`. The peer is the
usual loop around `GPT2LMHeadModel`, with one thread and with all cores: for so small a model either may be faster, and
ratios are relative to the fastest. Both train on the same characters and are scored on the same windows of the last tenth
of the text. Every round has its own seed. Tokens per second count only the training steps, without the first tenth.

Run it on an idle machine without OMP_NUM_THREADS. The threads of a step wait for each other, so other load slows down a
peer with several threads far more than a single-threaded process, and makes its ratio meaningless.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from heedful.recipes import Recipe, load_recipe
from heedful.runtime.cores import cores
from heedful.runtime.screen import Silence
from heedful.tasks.language_model import LanguageModelTask
from measuring import (
    Transcript,
    adamw,
    at_end_alone,
    beside_peers,
    counted,
    heedful_facts,
    medians,
    warm_steps,
    watch_heedful,
    watch_peer,
)

REFERENCE = 1.88  # published validation loss of this setting
CONTEXT, WINDOWS, WIDTH, LAYERS, HEADS = 64, 12, 128, 4, 4
LEARNING_RATE, WEIGHT_DECAY, BETAS, CLIP = 1e-3, 0.1, (0.9, 0.99), 1.0
PEER = "transformers GPT-2"


def overrides_of(data: str, steps: int, seed: int) -> list[str]:
    """heedful's settings for this job."""
    return [
        f"data.train={data}", "data.hold_out=0.1", "tokenizer.kind=char", "model.dropout=0", f"model.context={CONTEXT}",
        f"model.layers={LAYERS}", f"model.heads={HEADS}", f"model.d_model={WIDTH}", f"model.d_ff={4 * WIDTH}",
        f"training.batch_tokens={WINDOWS * CONTEXT}", f"training.seed={seed}", f"training.warmup={max(1, steps // 20)}",
        "training.schedule=linear", f"training.learning_rate={LEARNING_RATE}", f"training.weight_decay={WEIGHT_DECAY}",
        f"training.beta1={BETAS[0]}", f"training.beta2={BETAS[1]}", "training.epsilon=1e-8", f"training.clip={CLIP}",
        *at_end_alone(steps),
    ]  # fmt: skip


def measure_heedful(overrides: list[str], workers: int, run: Path) -> dict[str, float]:
    """One training run of heedful."""
    watched = watch_heedful("language-model", [*overrides, f"training.workers={workers}", "training.precision=float32"], run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return {**heedful_facts(watched, run), "loss": results["final"]["validation"]["loss"]}


def run_peer(settings: dict[str, Any]) -> dict[str, float]:
    """Inside the peer's process: train a GPT-2 on random windows, and evaluate it."""
    from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

    recipe, steps, seed = load_recipe("language-model", settings["overrides"]), settings["steps"], settings["seed"]
    task = LanguageModelTask(recipe, Path(settings["data"]))
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=task.tokenizer.size, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=task.tokenizer.bos, eos_token_id=task.tokenizer.eos,
    )  # fmt: skip
    config._attn_implementation = "sdpa"  # the fastest attention on a CPU
    model = GPT2LMHeadModel(config).train()
    optimizer = adamw(model, LEARNING_RATE, WEIGHT_DECAY, BETAS)
    schedule = get_linear_schedule_with_warmup(optimizer, recipe.training.warmup, steps)
    stream, rng, warm = np.asarray(task.stream), np.random.default_rng(seed), warm_steps(steps)
    started = time.perf_counter()
    for step in range(steps):
        if step == warm:
            started = time.perf_counter()
        starts = rng.integers(0, len(stream) - CONTEXT, WINDOWS)
        window = torch.from_numpy(stream[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64))
        logits = model(input_ids=window[:, :-1]).logits
        loss = cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
    rate = (steps - warm if steps > warm else steps) * WINDOWS * CONTEXT / (time.perf_counter() - started)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"rate": rate, "parameters": parameters, "loss": validation_loss(model, task)}


@torch.no_grad()
def validation_loss(model: torch.nn.Module, task: LanguageModelTask) -> float:
    """The peer's loss in nats per token on heedful's validation windows."""
    model.eval()
    total, count = 0.0, 0
    for start in range(0, len(task.valid), 64):
        group = [ids for ids, _ in task.valid[start : start + 64]]
        widest = max(map(len, group))
        rows = torch.tensor([ids + [-100] * (widest - len(ids)) for ids in group])  # -100: ignored by the loss
        logits = model(input_ids=rows[:, :-1].clamp(min=0)).logits
        total += float(cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"))
        count += sum(len(ids) - 1 for ids in group)
    return total / count


def prepared(recipe: Recipe, folder: Path) -> Path:
    """The data as heedful prepares it, which the peer reads too."""
    LanguageModelTask.prepare(recipe, folder, Silence())
    return folder


def measure(arguments: argparse.Namespace, folder: Path, transcript: Transcript) -> dict[str, list[dict[str, float]]]:
    """Run every engine once per round."""
    engines = [("heedful", workers) for workers in arguments.workers] + [(PEER, threads) for threads in arguments.threads]
    names = [f"{engine}, {counted(n, 'worker' if engine == 'heedful' else 'thread')}" for engine, n in engines]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(1, arguments.rounds + 1):
        overrides = overrides_of(str(Path(arguments.data).absolute()), arguments.steps, number)
        data = prepared(load_recipe("language-model", overrides), folder / f"data-{number}")
        for (engine, many), (name, rounds) in zip(engines, found.items(), strict=True):
            if engine == "heedful":
                rounds.append(measure_heedful(overrides, many, folder / f"run-{number}-{many}"))
            else:
                settings = {"overrides": overrides, "data": str(data), "steps": arguments.steps, "seed": number, "threads": many}
                rounds.append(watch_peer(__file__, settings))
            row = rounds[-1]
            transcript.say(f"round {number}: {name}  loss {row['loss']:.4f}  {row['rate']:,.0f} tokens/s")
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/tinyshakespeare/input.txt.gz", help="text file, plain or gzip")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="heedful's processes; one row each")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores()}), help="the peer's threads; one row each")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(run_peer(json.loads(arguments.peer))))
        return
    transcript = Transcript(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: medians(rounds) for name, rounds in measure(arguments, Path(folder), transcript).items()}
    ratios = beside_peers(found)
    transcript.table(
        ("engine", "parameters", "validation loss", "tokens/s", "× fastest peer", "total seconds", "peak memory, MB"),
        [
            (name, f"{row['parameters']:,.0f}", f"{row['loss']:.4f}", f"{row['rate']:,.0f}", f"{ratios[name]:.2f}",
             f"{row['seconds']:.0f}", f"{row['megabytes']:,.0f}")
            for name, row in found.items()
        ],
    )  # fmt: skip
    transcript.say(
        f"medians of {counted(arguments.rounds, 'round')} of {arguments.steps:,} steps; the reference loss is {REFERENCE}"
    )
    settings = {"steps": arguments.steps, "rounds": arguments.rounds, "reference": REFERENCE, **transcript.circumstances}
    engines = {name: {**row, "ratio": round(ratios[name], 4)} for name, row in found.items()}
    transcript.say(json.dumps({"benchmark": "language_model", **settings, "engines": engines}))


if __name__ == "__main__":
    main()
