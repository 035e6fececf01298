"""Translation and summarization as jobs for the trainer: pairs in, an encoder–decoder that writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from heedful.data.batches import Batch, BpeDropout, Position, batches_from, special_ids
from heedful.data.documents import read_summaries
from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.data.prepare import Reporter, load_prepared, prepare, prepare_once, write_pairs
from heedful.data.topics import write_topic_summaries
from heedful.errors import UsageError
from heedful.models.seq2seq import Seq2Seq
from heedful.pipelines.directory import find_directory, read_tokenizers
from heedful.pipelines.translator import Summarizer, Translator
from heedful.recipes import Recipe
from heedful.tasks.task import Task, pretrained_config, ready_files, writing_loss
from heedful.text import Tokenizer


def ready_tokenizers(recipe: Recipe) -> tuple[Tokenizer, Tokenizer] | None:
    """The two tokenizers (or one twice) of the pre-trained model a recipe goes on from."""
    if not recipe.model["pretrained"]:
        return None
    config = pretrained_config(recipe)
    found = read_tokenizers(find_directory(Path(recipe.model["pretrained"])), config)
    return found["tokenizer"], found.get("target_tokenizer", found["tokenizer"])


class TranslationTask(Task):
    """Learns to translate from aligned pairs."""

    unit = "tokens"

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.data = load_prepared(folder)
        self.valid, self.test = self.data.valid, self.data.test
        vocabularies = {"source_vocab": self.data.source_tokenizer.size, "target_vocab": self.data.target_tokenizer.size}
        self.config = self.model_config(**vocabularies)

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        ready = ready_tokenizers(recipe)
        prepare(recipe.data, recipe.tokenizer, recipe.training.seed, folder, reporter, ready, ready_files(recipe))

    def pipeline(self, model: Seq2Seq, quick: bool = False) -> Translator:
        return Translator(model, self.data.source_tokenizer, self.data.target_tokenizer, **self.decoding(quick))

    def decoding(self, quick: bool) -> dict[str, Any]:
        """How to write."""
        decoding = self.recipe.decoding
        beam = decoding.validation_beam if quick else decoding.beam
        return {"beam": beam, "length_penalty": decoding.length_penalty, "max_extra": decoding.max_extra}

    def search_words(self, quick: bool = False) -> str:
        beam = self.decoding(quick)["beam"]
        return "greedy" if beam == 1 else f"beam {beam}"

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, Batch | None]]:
        training = self.recipe.training
        special = special_ids(self.data.source_tokenizer, self.data.target_tokenizer)
        size, most = training.batch_tokens, training.batch_examples
        dropout = None
        if training.bpe_dropout:
            halves = (self.data.source_tokenizer.halves(), self.data.target_tokenizer.halves())
            dropout = BpeDropout(training.bpe_dropout, training.seed, halves)
        return batches_from(self.data.train, special, size, training.seed, position, rank, world, most, dropout)

    def loss(self, model: Seq2Seq, batch: Batch, r_drop: float = 0.0) -> tuple[Tensor, Tensor, int]:
        loss, nll = writing_loss(model, batch, self.recipe.training.label_smoothing, r_drop)
        return loss, nll, int(batch.target_mask.sum())


@dataclass(frozen=True)
class SummaryFile:
    """A JSONL of documents and summaries in the place of a parallel corpus."""

    path: Path
    target: None = None

    @property
    def paths(self) -> list[Path]:
        return [self.path]

    def read(self, drops: Drops) -> Iterator[Pair]:
        """Every usable (document, summary)."""
        return read_summaries(self.path, drops)


class SummarizationTask(TranslationTask):
    """Learns to write summaries of documents, whose ends are cut off where they are too long."""

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        data, seed = recipe.data, recipe.training.seed
        if not data.generate and not data.train:
            raise UsageError('no training text: give data.train=FILE, a JSONL of {"document": …, "summary": …}')
        named = {"train": data.train, "valid": data.valid, "test": data.test}
        paths = [Path(path) for path in named.values() if path]
        paths += ready_files(recipe)
        tokenizer, start = vars(recipe.tokenizer), recipe.model["pretrained"]
        settings = {"seed": seed, "data": vars(data), "tokenizer": tokenizer, "from": start}

        def make(temporary: Path) -> dict[str, Any]:
            made = write_topic_summaries(temporary, seed) if data.generate else {k: Path(v) for k, v in named.items() if v}
            files = {
                "" if split == "train" else f"{split}_": SummaryFile(made[split]) if split in made else None for split in named
            }
            return write_pairs(files, data, recipe.tokenizer, temporary, reporter, True, ready_tokenizers(recipe))

        prepare_once(settings, paths, folder, reporter, make)

    def pipeline(self, model: Seq2Seq, quick: bool = False) -> Summarizer:
        settings = {**self.decoding(quick), "max_length": self.recipe.data.max_length}
        return Summarizer(model, self.data.source_tokenizer, self.data.target_tokenizer, **settings)
