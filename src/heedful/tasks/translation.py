"""Translation as a job for the trainer: an encoder–decoder that learns from aligned pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from torch import Tensor

from heedful.data.batches import Position, batches_from
from heedful.data.bpe_dropout import BpeDropout
from heedful.data.collation import Batch, special_ids
from heedful.data.languages import languages_of
from heedful.data.prepare import Reporter
from heedful.data.prepare_pairs import load_prepared, prepare_pairs
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.pipelines.model_directory import find_directory, read_tokenizers
from heedful.pipelines.translator import Translator
from heedful.recipes import Recipe
from heedful.tasks.task import Task, pretrained_config, ready_files, writing_loss
from heedful.text import Tokenizer


def ready_tokenizers(recipe: Recipe) -> tuple[Tokenizer, Tokenizer] | None:
    """The two tokenizers (or one twice) of the pre-trained model that a recipe starts from."""
    if not recipe.model["pretrained"]:
        return None
    config = pretrained_config(recipe)
    found = read_tokenizers(find_directory(Path(recipe.model["pretrained"])), config)
    return found["tokenizer"], found.get("target_tokenizer", found["tokenizer"])


class SearchSettings(TypedDict):
    """How to write: keyword arguments of `Translator`."""

    beam: int
    length_penalty: float
    max_extra: int
    max_tokens: int
    no_repeat_ngram: int
    repetition_penalty: float


class TranslationTask(Task[Seq2Seq, Batch]):
    """Learns to translate from aligned pairs."""

    unit = "tokens"
    config: Seq2SeqConfig

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        super().__init__(recipe, folder)
        self.data = load_prepared(folder)
        self.valid, self.test = self.data.valid, self.data.test
        vocabularies = {"source_vocab": self.data.source_tokenizer.size, "target_vocab": self.data.target_tokenizer.size}
        self.config = self.model_config(**vocabularies)

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        ready = ready_tokenizers(recipe)
        prepare_pairs(recipe.data, recipe.tokenizer, recipe.training.seed, folder, reporter, ready, ready_files(recipe))

    def pipeline(self, model: Seq2Seq, quick: bool = False) -> Translator:
        tokenizers = self.data.source_tokenizer, self.data.target_tokenizer
        source, target = languages_of(self.recipe.data)
        return Translator(model, *tokenizers, **self.decoding(quick), source_language=source, target_language=target)

    def decoding(self, quick: bool) -> SearchSettings:
        """How to write: `quick` for validations while training."""
        decoding = self.recipe.decoding
        beam = decoding.validation_beam if quick else decoding.beam
        return {
            "beam": beam,
            "length_penalty": decoding.length_penalty,
            "max_extra": decoding.max_extra,
            "max_tokens": decoding.max_tokens,
            "no_repeat_ngram": decoding.no_repeat_ngram,
            "repetition_penalty": decoding.repetition_penalty,
        }

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
