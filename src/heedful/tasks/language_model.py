"""Language modelling as a job for the trainer: one long stream of tokens, cut at different places in every epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from heedful.data.batches import Indices, Position, deal_batches
from heedful.data.collation import TensorBatch
from heedful.data.plain_text import blocks_of
from heedful.data.prepare import Facts, Reporter, prepare_once
from heedful.data.python_reference import write_topic_text
from heedful.data.splits import SPLIT_NAMES
from heedful.data.text_windows import TextWindow, text_windows
from heedful.data.token_store import TokenArray, write_rows
from heedful.errors import HeedfulError, UsageError
from heedful.models.gpt import GPT, GPTConfig
from heedful.pipelines.writer import Writer
from heedful.recipes import Recipe
from heedful.tasks.task import Task, keep_tokenizer, kept_tokenizer, ready_files, ready_tokenizer, writing_loss
from heedful.text import Tokenizer

MOST_HELD_OUT = 1_000_000  # characters at the end of the training text


@dataclass(frozen=True)
class TextBatch(TensorBatch):
    """Windows of a text (B, L), the token after each token, and a mask that is False at padding."""

    tokens: Tensor
    targets: Tensor
    mask: Tensor


class LanguageModelTask(Task[GPT, TextBatch]):
    """Learns to predict the next token."""

    unit = "tokens"
    config: GPTConfig

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.tokenizer = kept_tokenizer(folder)
        self.stream = TokenArray(folder, "source").ids
        self.config = self.model_config(vocab=self.tokenizer.size)
        self.valid, self.test = (self.held_out(split) for split in SPLIT_NAMES[1:])

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        data, seed = recipe.data, recipe.training.seed
        named = {split: [Path(p.strip()) for p in getattr(data, split).split(",") if p.strip()] for split in SPLIT_NAMES}
        if not data.generate and not named["train"]:
            raise UsageError("no training text: give data.train=FILE, or several files separated by commas")
        paths = [path for files in named.values() for path in files] + ready_files(recipe)
        settings = {"seed": seed, "data": vars(data), "tokenizer": vars(recipe.tokenizer), "from": recipe.model["pretrained"]}

        def make(temporary: Path) -> Facts:
            files = named
            if data.generate:
                files = {split: [path] for split, path in write_topic_text(temporary, seed).items()}
            return _write_stream(recipe, files, temporary, reporter)

        prepare_once(settings, paths, folder, reporter, make)

    def held_out(self, split: str) -> list[TextWindow]:
        """The windows of a held-out text."""
        texts = json.loads((self.folder / f"{split}.json").read_text(encoding="utf-8"))
        return [window for text in texts for window in text_windows(text, self.tokenizer, self.config.context)]

    def pipeline(self, model: GPT, quick: bool = False) -> Writer:
        return Writer(model, self.tokenizer)

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, TextBatch | None]]:
        training, length = self.recipe.training, min(self.config.context, len(self.stream) - 1)
        rows = max(1, training.batch_tokens // length)
        rows = min(rows, training.batch_examples) if training.batch_examples else rows

        def plan(epoch: int) -> Iterator[Indices]:
            rng = np.random.default_rng([training.seed, epoch])
            # Windows begin at different places in every epoch, so that each token is predicted from contexts of all lengths.
            phase = int(rng.integers(0, length)) if len(self.stream) > 2 * length else 0
            starts = rng.permutation(np.arange(phase, len(self.stream) - length, length))
            for at in range(0, len(starts), rows):
                yield starts[at : at + rows]

        def make(starts: Indices, epoch: int) -> TextBatch:
            window = torch.from_numpy(self.stream[starts[:, None] + np.arange(length + 1)].astype(np.int64))
            return TextBatch(window[:, :-1], window[:, 1:], torch.ones(len(starts), length, dtype=torch.bool))

        return deal_batches(plan, make, position, rank, world)

    def loss(self, model: GPT, batch: TextBatch, r_drop: float = 0.0) -> tuple[Tensor, Tensor, int]:
        loss, nll = writing_loss(model, batch, self.recipe.training.label_smoothing, r_drop)
        return loss, nll, batch.tokens.numel()


def _write_stream(recipe: Recipe, files: dict[str, list[Path]], folder: Path, reporter: Reporter) -> Facts:
    """Tokenizer, the training text as one stream of ids, and the held-out texts."""
    data, settings = recipe.data, recipe.tokenizer
    characters = sum(len(block) for path in files["train"] for block in blocks_of(path))
    held = 0 if files["valid"] else min(int(characters * data.hold_out), MOST_HELD_OUT)
    if not files["valid"] and not held:
        raise HeedfulError("too little text to hold out a part of it for validation; give data.valid=FILE")
    limit = characters - held

    def texts() -> Iterator[str]:
        """The training text, block by block, with an empty block between documents."""
        seen = 0
        for path in files["train"]:
            for block in blocks_of(path):
                if seen < limit:
                    yield block[: limit - seen]
                seen += len(block)
            yield ""

    def rest() -> str:
        seen, found = 0, []
        for path in files["train"]:
            for block in blocks_of(path):
                found.append(block[max(0, limit - seen) :])
                seen += len(block)
        return "".join(found)

    tokenizer = ready_tokenizer(recipe)
    if tokenizer is None:
        reporter.track(f"learning a vocabulary ({settings.kind})", None)
        tokenizer = Tokenizer.train(settings.kind, islice(texts(), settings.sample), settings.size)
    eos = tokenizer.eos
    tick = reporter.track("tokenising", limit)

    def groups(tokenizer: Tokenizer) -> Iterator[list[tuple[list[int], list[int]]]]:
        yield [([eos], [])]
        blocks = texts()
        while group := list(islice(blocks, 64)):
            rows = tokenizer.encode_batch(group)
            yield [(ids if text else [eos], []) for text, ids in zip(group, rows, strict=True)]
            tick(sum(map(len, group)))

    write_rows(folder, groups(tokenizer))
    tokens = len(TokenArray(folder, "source").ids)
    for split in SPLIT_NAMES[1:]:
        held_texts = ["".join(blocks_of(path)) for path in files[split]] if files[split] else []
        if split == "valid" and not files["valid"]:
            held_texts = [rest()]
        (folder / f"{split}.json").write_text(json.dumps(held_texts, ensure_ascii=False), encoding="utf-8")
    summary = f"{tokens:,} tokens of {limit:,} characters"
    reporter.say(f"data: {summary} to train on" + (f", {held:,} characters held out for validation" if held else ""))
    return {"summary": summary, **keep_tokenizer(tokenizer, folder)}
