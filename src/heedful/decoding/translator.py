"""A trained model ready to be used: text in, text out; and the directory it lives in.

A model directory holds `config.json`, `model.safetensors`, `tokenizer.json` (and `target_tokenizer.json` when the two
languages have a vocabulary each) and `README.md`. Nothing in it is executed when it is loaded.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from heedful.data.batches import SpecialIds, collate, frame, special_ids
from heedful.decoding.search import Hypothesis, Limits, beam_search, greedy_search, sample
from heedful.errors import HeedfulError, UsageError
from heedful.files import write_text, write_whole
from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heedful.models.weights import load_weights, named_weights
from heedful.nn.loss import label_smoothed_loss
from heedful.text import Tokenizer

FORMAT = 1  # of a model directory; a newer one is refused, an older one is read
BATCH_TOKENS = 4096  # source tokens, beams included, decoded together


class Translator:
    """Translates text with an encoder–decoder and its tokenizers."""

    def __init__(
        self,
        model: Seq2Seq,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        beam: int = 4,
        length_penalty: float = 0.6,
        max_extra: int = 50,
    ) -> None:
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.beam, self.length_penalty, self.max_extra = beam, length_penalty, max_extra
        self.card = ""

    @property
    def device(self) -> torch.device:
        return self.model.output_weight.device

    @property
    def special(self) -> SpecialIds:
        """The ids that frame sources and targets."""
        return special_ids(self.source_tokenizer, self.target_tokenizer)

    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[str]:
        """Each text translated; beam 1 is greedy. An empty text stays empty."""
        if isinstance(texts, str):
            raise UsageError("translate takes a list of texts; put the one you have in brackets")
        return [self.target_tokenizer.decode(found[0].tokens) if found else "" for found in self.search(texts, beam)]

    def search(
        self,
        texts: Sequence[str],
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        sampling: dict[str, Any] | None = None,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each text, best first; none for an empty text.

        `sampling` (keys temperature, top_k, top_p, generator) draws instead of searching.
        """
        beam = max(self.beam if beam is None else beam, n_best)
        alpha = self.length_penalty if length_penalty is None else length_penalty
        found: list[list[Hypothesis]] = [[] for _ in texts]
        encoded = self.source_tokenizer.encode_batch(texts)
        order = sorted((i for i, text in enumerate(texts) if text.strip()), key=lambda i: len(encoded[i]))
        limits = Limits(self.target_tokenizer.bos, self.target_tokenizer.eos, self.target_tokenizer.pad, self.max_extra)
        was_training = self.model.training
        self.model.eval()
        for batch in _by_budget(order, [len(ids) + 1 for ids in encoded], BATCH_TOKENS // beam):
            rows = [np.array(encoded[i], dtype=np.uint32) for i in batch]
            source, mask = frame(rows, self.special.source_pad, None, self.special.source_eos)
            source, mask = source.to(self.device), mask.to(self.device)
            if sampling is not None:
                draws = [sample(self.model, source, mask, limits, **sampling) for _ in range(n_best)]
                results = [sorted(drawn, key=lambda h: -h.score) for drawn in zip(*draws, strict=True)]
            elif beam == 1:
                results = [[hypothesis] for hypothesis in greedy_search(self.model, source, mask, limits)]
            else:
                results = beam_search(self.model, source, mask, limits, beam, alpha, n_best)
            for i, result in zip(batch, results, strict=True):
                found[i] = result
        self.model.train(was_training)
        return found

    @torch.no_grad()
    def log_likelihood(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, int]:
        """Σ log p(target | source) over all pairs, and the number of target tokens, ends included."""
        sources = self.source_tokenizer.encode_batch([source for source, _ in pairs])
        targets = self.target_tokenizer.encode_batch([target for _, target in pairs])
        order = sorted(range(len(pairs)), key=lambda i: (len(targets[i]), len(sources[i])))
        widths = [max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)]
        total, tokens = 0.0, 0
        was_training = self.model.training
        self.model.eval()
        for rows in _by_budget(order, widths, BATCH_TOKENS):
            left = [np.array(sources[i], dtype=np.uint32) for i in rows]
            right = [np.array(targets[i], dtype=np.uint32) for i in rows]
            batch = collate(left, right, self.special).to(self.device)
            nll = label_smoothed_loss(*self.model.training_states(batch))[1]
            total -= float(nll)
            tokens += int(batch.target_mask.sum())
        self.model.train(was_training)
        return total, tokens

    def perplexity(self, pairs: Sequence[tuple[str, str]]) -> float:
        """exp of the mean negative log-likelihood of a target token."""
        total, tokens = self.log_likelihood(pairs)
        return math.exp(min(-total / max(1, tokens), 700.0))

    def save(self, folder: str | Path, card: str | None = None) -> None:
        """Write the model directory; every file appears whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "format": FORMAT,
            "task": "translation",
            "kind": "seq2seq",
            "model": dataclasses.asdict(self.model.config),
            "decoding": {"beam": self.beam, "length_penalty": self.length_penalty, "max_extra": self.max_extra},
        }
        write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
        write_whole(folder / "tokenizer.json", self.source_tokenizer.save)
        if self.target_tokenizer is not self.source_tokenizer:
            write_whole(folder / "target_tokenizer.json", self.target_tokenizer.save)
        weights = {name: tensor.contiguous().cpu() for name, tensor in named_weights(self.model).items()}
        write_whole(folder / "model.safetensors", lambda path: save_file(weights, path))
        write_text(folder / "README.md", self.card if card is None else card)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Translator:
        """Read a model directory."""
        folder = Path(folder)
        config = read_config(folder)
        source = Tokenizer.load(folder / "tokenizer.json")
        other = folder / "target_tokenizer.json"
        target = Tokenizer.load(other) if other.exists() else source
        try:
            model = Seq2Seq(Seq2SeqConfig(**config["model"]))
            translator = cls(model, source, target, **config.get("decoding", {}))
        except (TypeError, KeyError, UsageError) as error:
            raise HeedfulError(f"{folder / 'config.json'} does not describe a model: {error}") from error
        for tokenizer, wanted in ((source, model.config.source_vocab), (target, model.config.target_vocab)):
            if tokenizer.size != wanted:
                raise HeedfulError(f"a tokenizer in {folder} has {tokenizer.size:,} tokens, but the model knows {wanted:,}")
        try:
            load_weights(model, load_file(folder / "model.safetensors"), str(folder / "model.safetensors"))
        except (FileNotFoundError, SafetensorError) as error:
            raise HeedfulError(f"{folder / 'model.safetensors'} cannot be read: {error}") from error
        model.to(device).eval()
        card = folder / "README.md"
        translator.card = card.read_text(encoding="utf-8") if card.exists() else ""
        return translator


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model directory, checked to be one this version reads."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise HeedfulError(f"there is no model directory {folder}")
    if not path.is_file():
        inside = [name for name in ("best", "final") if (folder / name / "config.json").is_file()]
        hint = f"; this is a run, its models are {' and '.join(str(folder / name) for name in inside)}" if inside else ""
        raise HeedfulError(f"{folder} is not a model directory: it has no config.json{hint}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise HeedfulError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or "model" not in config:
        raise HeedfulError(f"{path} does not describe a heedful model")
    if not isinstance(config.get("format"), int) or config["format"] > FORMAT:
        raise HeedfulError(f"{folder} was written by a newer heedful (format {config.get('format')}); update heedful")
    return config


def _by_budget(order: Sequence[int], widths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut an order into batches whose padded size stays under the budget, or that have one entry."""
    batches: list[list[int]] = []
    widest = 0
    for i in order:
        widest = max(widest, widths[i])
        if not batches or widest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            widest = widths[i]
        batches[-1].append(i)
    return batches
