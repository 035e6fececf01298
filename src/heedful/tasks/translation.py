"""Translation as a job for the trainer: its data, its loss, its validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.data.batches import Batch, Position, batches_from, special_ids
from heedful.data.corpus import Pair
from heedful.data.prepare import Reporter, load_prepared, prepare
from heedful.decoding.translator import Translator
from heedful.evaluation import translation_scores
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.nn.loss import label_smoothed_loss
from heedful.recipes import Recipe, model_settings
from heedful.training.processes import Processes

SAMPLES = 8


class TranslationTask:
    """Learns to translate from aligned pairs."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe = recipe
        self.data = load_prepared(folder)
        source, target = self.data.source_tokenizer, self.data.target_tokenizer
        self.config = Seq2SeqConfig(source.size, target.size, **model_settings(recipe))

    @staticmethod
    def prepare(recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        """Do once what every process then loads."""
        prepare(recipe.data, recipe.tokenizer, recipe.training.seed, folder, reporter)

    def build_model(self) -> Seq2Seq:
        """Fresh weights, by the recipe's seed."""
        torch.manual_seed(self.recipe.training.seed)
        return Seq2Seq(self.config)

    def translator(self, model: Seq2Seq) -> Translator:
        """The model as people will use it."""
        decoding = self.recipe.decoding
        return Translator(
            model,
            self.data.source_tokenizer,
            self.data.target_tokenizer,
            decoding.beam,
            decoding.length_penalty,
            decoding.max_extra,
        )

    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, Batch | None]]:
        """This process's share of the data from a position on."""
        training = self.recipe.training
        special = special_ids(self.data.source_tokenizer, self.data.target_tokenizer)
        return batches_from(self.data.train, special, training.batch_tokens, training.seed, position, rank, world)

    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor, int]:
        """Sums over the batch: the loss to train on, the negative log-likelihood to report; and the target tokens."""
        loss, nll = label_smoothed_loss(*model.training_states(batch), self.recipe.training.label_smoothing)
        return loss, nll, int(batch.target_mask.sum())

    def validate(self, model: Seq2Seq, processes: Processes, everything: bool = False) -> dict[str, Any]:
        """Scores on the validation pairs: `loss` (per token), `perplexity`, `bleu`, `chrf`, `exact`, and samples."""
        limit = None if everything else self.recipe.training.validate_pairs
        beam = None if everything else self.recipe.decoding.validation_beam
        return self.score(model, self.data.valid[:limit], processes, beam)

    def score(self, model: Seq2Seq, pairs: Sequence[Pair], processes: Processes, beam: int | None = None) -> dict[str, Any]:
        """Scores of real decoding on any pairs, shared out between the processes."""
        translator = self.translator(model)
        mine = pairs[processes.rank :: processes.world]
        written = translator.translate([source for source, _ in mine], beam)
        likelihood, tokens = translator.log_likelihood(mine) if mine else (0.0, 0)
        parts = processes.gather((written, likelihood, tokens))
        hypotheses = [""] * len(pairs)
        for rank, (texts, _, _) in enumerate(parts):
            hypotheses[rank :: processes.world] = texts
        loss = -sum(part[1] for part in parts) / max(1, sum(part[2] for part in parts))
        shown = list(zip(pairs, hypotheses, strict=True))[:SAMPLES]
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            **translation_scores(hypotheses, [target for _, target in pairs]),
            "samples": [{"source": s, "reference": r, "translation": t} for (s, r), t in shown],
        }
