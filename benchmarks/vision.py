"""A Vision Transformer on scikit-learn's digits: heedful against the ViT of transformers, accuracy and speed in one run.

    python benchmarks/vision.py

heedful runs as the real command, `heedful train image-classification`. The peer is the usual loop around
`ViTForImageClassification`, of the same size, with the same images, shifts, batches, steps and settings, with one thread
and with all cores; ratios are relative to the fastest. Both are scored on the same test images (`heedful.data.images`) with
the weights of their last step. Every round has its own seed. Images per second count only the training steps, without the
first tenth.

Run it on an idle machine without OMP_NUM_THREADS; `language_model.py` says why.
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

from heedful.data.images import LabelledImages, crop, read_digits, to_floats
from heedful.recipes import Recipe, load_recipe
from heedful.runtime.cores import cores
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

PEER = "transformers ViT"


def overrides_of(steps: int, batch: int, seed: int) -> list[str]:
    """heedful's settings for this job: those of its recipe, except for the number of steps."""
    sizes = [f"training.batch_examples={batch}", f"training.warmup={max(1, steps // 10)}", f"training.seed={seed}"]
    return ["training.epsilon=1e-8", *sizes, *at_end_alone(steps)]


def measure_heedful(overrides: list[str], workers: int, run: Path) -> dict[str, float]:
    """One training run of heedful."""
    watched = watch_heedful(
        "image-classification", [*overrides, f"training.workers={workers}", "training.precision=float32"], run
    )
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    return {**heedful_facts(watched, run), "accuracy": results["final"]["test"]["accuracy"]}


def build_peer(recipe: Recipe, classes: int) -> torch.nn.Module:
    """A ViT of the recipe's shape."""
    from transformers import ViTConfig, ViTForImageClassification

    shape = recipe.model
    config = ViTConfig(
        image_size=recipe.data.size, num_channels=recipe.data.channels, patch_size=shape["patch"],
        hidden_size=shape["d_model"], intermediate_size=shape["d_ff"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config.num_labels = classes
    config._attn_implementation = "sdpa"  # the fastest attention on a CPU
    return ViTForImageClassification(config)


def run_peer(settings: dict[str, Any]) -> dict[str, float]:
    """Inside the peer's process: train a ViT, and evaluate it."""
    from transformers import get_linear_schedule_with_warmup

    recipe, seed = load_recipe("image-classification", settings["overrides"]), settings["seed"]
    training, digits = recipe.training, read_digits()
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(seed)
    model = build_peer(recipe, len(digits["train"].classes)).train()
    optimizer = adamw(model, training.learning_rate, training.weight_decay, (training.beta1, training.beta2))
    schedule = get_linear_schedule_with_warmup(optimizer, training.warmup, training.steps)
    images, labels = torch.from_numpy(digits["train"].images), torch.from_numpy(digits["train"].labels)
    rng, shifts = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    seen, started, warm = 0, time.perf_counter(), warm_steps(training.steps)
    order = np.zeros(0, dtype=np.int64)
    for step in range(training.steps):
        if step == warm:
            seen, started = 0, time.perf_counter()
        if not len(order):
            order = rng.permutation(len(labels))
        rows, order = torch.from_numpy(order[: training.batch_examples]), order[training.batch_examples :]
        pixels = crop(images[rows], recipe.data.crop, shifts) if recipe.data.crop else images[rows]
        logits = model(pixel_values=to_floats(pixels.numpy())).logits
        loss = cross_entropy(logits, labels[rows], label_smoothing=training.label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        schedule.step()
        seen += len(rows)
    rate = seen / (time.perf_counter() - started)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"rate": rate, "parameters": parameters, "accuracy": accuracy(model, digits["test"])}


@torch.no_grad()
def accuracy(model: torch.nn.Module, held_out: LabelledImages) -> float:
    """Accuracy of the peer in per cent."""
    model.eval()
    found = model(pixel_values=to_floats(held_out.images)).logits.argmax(-1)
    return 100.0 * float((found == torch.from_numpy(held_out.labels)).float().mean())


def measure(arguments: argparse.Namespace, folder: Path, transcript: Transcript) -> dict[str, list[dict[str, float]]]:
    """Run every engine once per round."""
    engines = [("heedful", workers) for workers in arguments.workers] + [(PEER, threads) for threads in arguments.threads]
    names = [f"{engine}, {counted(n, 'worker' if engine == 'heedful' else 'thread')}" for engine, n in engines]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(1, arguments.rounds + 1):
        overrides = overrides_of(arguments.steps, arguments.batch, number)
        for (engine, many), (name, rounds) in zip(engines, found.items(), strict=True):
            if engine == "heedful":
                rounds.append(measure_heedful(overrides, many, folder / f"run-{number}-{many}"))
            else:
                rounds.append(watch_peer(__file__, {"overrides": overrides, "seed": number, "threads": many}))
            row = rounds[-1]
            transcript.say(f"round {number}: {name}  test accuracy {row['accuracy']:.2f} %  {row['rate']:,.0f} images/s")
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=128, help="images per step")
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
        ("engine", "parameters", "test accuracy, %", "images/s", "× fastest peer", "total seconds", "peak memory, MB"),
        [
            (name, f"{row['parameters']:,.0f}", f"{row['accuracy']:.2f}", f"{row['rate']:,.0f}", f"{ratios[name]:.2f}",
             f"{row['seconds']:.0f}", f"{row['megabytes']:,.0f}")
            for name, row in found.items()
        ],
    )  # fmt: skip
    images = len(read_digits()["test"])
    transcript.say(f"medians of {counted(arguments.rounds, 'round')} of {arguments.steps:,} steps; {images} test images")
    settings = {"steps": arguments.steps, "batch": arguments.batch, "rounds": arguments.rounds, **transcript.circumstances}
    engines = {name: {**row, "ratio": round(ratios[name], 4)} for name, row in found.items()}
    transcript.say(json.dumps({"benchmark": "vision", "test_images": images, **settings, "engines": engines}))


if __name__ == "__main__":
    main()
