"""Summarization as a job for the trainer: translation of a document into its summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heedful.data.documents import read_summaries
from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.data.prepare import Facts, Reporter, prepare_once
from heedful.data.prepare_pairs import write_pairs
from heedful.data.python_reference import write_topic_summaries
from heedful.errors import UsageError
from heedful.models.seq2seq import Seq2Seq
from heedful.pipelines.summarizer import Summarizer
from heedful.recipes import Recipe
from heedful.tasks.task import ready_files
from heedful.tasks.translation import TranslationTask, ready_tokenizers


@dataclass(frozen=True)
class SummaryFile:
    """A JSONL of documents and summaries, used like a parallel corpus."""

    path: Path
    target: None = None

    @property
    def paths(self) -> list[Path]:
        return [self.path]

    def read(self, drops: Drops) -> Iterator[Pair]:
        """Every usable (document, summary)."""
        return read_summaries(self.path, drops)


class SummarizationTask(TranslationTask):
    """Learns to write summaries of documents; a document that is too long is truncated."""

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

        def make(temporary: Path) -> Facts:
            made = write_topic_summaries(temporary, seed) if data.generate else {k: Path(v) for k, v in named.items() if v}
            files = {split: SummaryFile(made[split]) if split in made else None for split in named}
            return write_pairs(files, data, recipe.tokenizer, temporary, reporter, True, ready_tokenizers(recipe))

        prepare_once(settings, paths, folder, reporter, make)

    def pipeline(self, model: Seq2Seq, quick: bool = False) -> Summarizer:
        tokenizers = self.data.source_tokenizer, self.data.target_tokenizer
        return Summarizer(model, *tokenizers, **self.decoding(quick), max_length=self.recipe.data.max_length)
