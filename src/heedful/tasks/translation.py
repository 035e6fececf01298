"""Translation as a job for the trainer: an encoder–decoder that learns from aligned pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from torch import Tensor

from heedful.data.batches import Position, batches_from
from heedful.data.bpe_dropout import BpeDropout
from heedful.data.collation import Batch, special_ids
from heedful.data.languages import languages_of
from heedful.data.monolingual import SyntheticPairs, translations
from heedful.data.prepare import Reporter
from heedful.data.prepare_pairs import load_prepared, prepare_pairs
from heedful.data.ready_tokenizers import PARTS, ReadyTokenizers
from heedful.jobs.data_settings import PairSettings
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.weights import with_new_rows
from heedful.pipelines.model_directory import find_directory, read_tokenizers
from heedful.pipelines.translator import Translator
from heedful.recipes import Recipe
from heedful.tasks.task import Task, pretrained_config, ready_files, writing_loss

VOCABULARY_ROWS = ("source_embedding.weight", "target_embedding.weight", "output_weight", "output_bias")  # one row per token


def ready_tokenizers(recipe: Recipe) -> ReadyTokenizers | None:
    """The tokenizers of the pre-trained model that a recipe starts from."""
    if not recipe.model["pretrained"]:
        return None
    config = pretrained_config(recipe)
    found = read_tokenizers(find_directory(Path(recipe.model["pretrained"])), config)
    target = found.get("target_tokenizer", found["tokenizer"])
    shared = target is found["tokenizer"] or config["model"].get("tie") == "all"
    return ReadyTokenizers(found["tokenizer"], target, shared, tuple(ready_files(recipe)))


def synthetic_pairs(recipe: Recipe, folder: Path) -> SyntheticPairs | None:
    """The pairs made from a recipe's plain text, in the run directory that contains `folder`."""
    if not isinstance(recipe.data, PairSettings):
        return None
    plain = {"reverse": recipe.data.monolingual_target, "first": recipe.data.monolingual_source}
    made = [path for name, given in plain.items() if given for path in translations(folder.parent / name)]
    return SyntheticPairs(tuple(made)) if made else None


class SearchSettings(TypedDict):
    """How to decode: keyword arguments of `Translator`."""

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
        path = folder / PARTS
        self.new_tokens = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if self.new_tokens:
            larger = {key: max(size, getattr(self.config, key)) for key, size in vocabularies.items()}
            self.config = replace(self.config, **larger)

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        tokenizer, seed = recipe.tokenizer, recipe.training.seed
        synthetic = synthetic_pairs(recipe, folder)
        prepare_pairs(recipe.data, tokenizer, seed, folder, reporter, ready_tokenizers(recipe), synthetic)

    def pretrained_weights(self) -> dict[str, Tensor]:
        weights = super().pretrained_weights()
        new = self.new_tokens
        if new is None:
            return weights

        def extended(name: str, weight: Tensor) -> Tensor:
            side = "source" if name.startswith("source_embedding") else "target"
            rows = self.config.source_vocab if side == "source" else self.config.target_vocab
            return with_new_rows(weight, rows, new[f"first_{side}"], new[side])

        return {name: extended(name, w) if name.startswith(VOCABULARY_ROWS) else w for name, w in weights.items()}

    def pipeline(self, model: Seq2Seq, quick: bool = False) -> Translator:
        tokenizers = self.data.source_tokenizer, self.data.target_tokenizer
        source, target = languages_of(self.recipe.data)
        return Translator(model, *tokenizers, **self.decoding(quick), source_language=source, target_language=target)

    def decoding(self, quick: bool) -> SearchSettings:
        """How to decode; `quick` for validation during training."""
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

    def describe_search(self, quick: bool = False) -> str:
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
