"""A model is a directory: `config.json`, `model.safetensors`, `tokenizer.json` and `README.md`.

Some models have a second vocabulary (`target_tokenizer.json`), one of images has none. Nothing in a model directory is
executed when it is loaded.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from heedful.data.corpus import Drops
from heedful.errors import HeedfulError, UsageError
from heedful.files import write_text, write_whole
from heedful.models import MODEL_KINDS, build_model, config_class, kind_of
from heedful.models.weights import load_weights, named_weights
from heedful.pipelines import TASKS
from heedful.text import Tokenizer

FORMAT = 1  # of a model directory; a newer one is refused, an older one is read


class Pipeline(ABC):
    """A model, its tokenizers and the settings it is used with. A subclass says what it is used for."""

    task: ClassVar[str]
    model: Any
    card: str = ""

    @property
    def device(self) -> torch.device:
        return next(iter(self.model.parameters())).device

    # What a subclass fills in

    @property
    @abstractmethod
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Name of the file, without .json → tokenizer."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the constructor needs beside the model and the tokenizers, as JSON can hold it."""
        return {}

    @classmethod
    @abstractmethod
    def assemble(cls, model: Any, tokenizers: dict[str, Tokenizer], settings: dict[str, Any]) -> Self:
        """The reverse of the two above."""

    @abstractmethod
    def read_examples(self, path: Path, drops: Drops) -> list[Any]:
        """Held-out data in the format of the job, as `predict` takes it; what cannot be used is counted in `drops`."""

    @abstractmethod
    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """What the model says of each labelled example, as JSON can hold it; `scores` compares it with the labels."""

    @abstractmethod
    def scores(self, examples: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        """The job's usual metrics of these predictions, by the names of `evaluation.names`."""

    @abstractmethod
    def samples(self, examples: Sequence[Any], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """Examples for people to look at: `input`, `output` and `reference` of each."""

    # The directory

    def save(self, folder: str | Path, card: str | None = None) -> None:
        """Write the model directory; every file appears whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "format": FORMAT,
            "task": self.task,
            "kind": kind_of(self.model.config),
            "model": dataclasses.asdict(self.model.config),
            "settings": self.settings,
        }
        roles = {name: tokenizer.roles for name, tokenizer in self.tokenizers.items() if tokenizer.roles}
        if roles:
            config["tokens"] = roles
        write_text(folder / "config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        for name, tokenizer in self.tokenizers.items():
            write_whole(folder / f"{name}.json", tokenizer.save)
        weights = {name: tensor.contiguous().cpu() for name, tensor in named_weights(self.model).items()}
        write_whole(folder / "model.safetensors", lambda path: save_file(weights, path))
        write_text(folder / "README.md", self.card if card is None else card)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Self:
        """Read a model directory."""
        folder = find_directory(Path(folder))
        config = read_config(folder)
        if config["task"] != cls.task:
            raise HeedfulError(f"{folder} is {TASKS[config['task']][0]}, not {TASKS[cls.task][0]}")
        tokenizers = read_tokenizers(folder, config)
        try:
            model = build_model(config_class(config["kind"])(**config["model"]))
            pipeline = cls.assemble(model, tokenizers, config["settings"])
        except (TypeError, KeyError, UsageError) as error:
            raise HeedfulError(f"{folder / 'config.json'} does not describe a model: {error}") from error
        vocabularies = [
            getattr(model.config, key) for key in ("source_vocab", "target_vocab", "vocab") if hasattr(model.config, key)
        ]
        for (name, tokenizer), wanted in zip(tokenizers.items(), vocabularies, strict=False):
            if tokenizer.size > wanted:  # a model may know more than its tokenizer ever says
                raise HeedfulError(f"{folder / f'{name}.json'} has {tokenizer.size:,} tokens, but the model knows {wanted:,}")
        load_weights(model, read_weights(folder), str(folder / "model.safetensors"))
        model.to(device).eval()
        card = folder / "README.md"
        pipeline.card = card.read_text(encoding="utf-8") if card.exists() else ""
        return pipeline


def find_directory(folder: Path) -> Path:
    """A model directory itself, or the best model of a run."""
    if (folder / "config.json").is_file():
        return folder
    if not folder.is_dir():
        raise HeedfulError(f"there is no model directory {folder}")
    best = folder / "best"
    if (best / "config.json").is_file():
        return best
    hint = "; the run has not been validated yet" if (folder / "recipe.toml").is_file() else ""
    raise HeedfulError(f"{folder} is not a model directory: it has no config.json{hint}")


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model directory, checked to be one this version reads."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise HeedfulError(f"{path} is not JSON: {error}") from error
    if isinstance(config, dict) and "model_type" in config and "format" not in config:
        raise HeedfulError(f"{folder} is a Hugging Face model; `heedful import {folder} OUT` makes it one of heedful's")
    if not isinstance(config, dict) or "model" not in config:
        raise HeedfulError(f"{path} does not describe a heedful model")
    if not isinstance(config.get("format"), int) or config["format"] > FORMAT:
        raise HeedfulError(f"{folder} was written by a newer heedful (format {config.get('format')}); update heedful")
    config.setdefault("settings", config.get("decoding", {}))  # its name in the first version
    if config.get("task") not in TASKS or config.get("kind") not in MODEL_KINDS:
        raise HeedfulError(f"{path} names the task '{config.get('task')}' and the kind '{config.get('kind')}', unknown here")
    return config


def read_tokenizers(folder: Path, config: dict[str, Any]) -> dict[str, Tokenizer]:
    """The tokenizers of a model directory by the name of their file: `tokenizer`, and `target_tokenizer` if there is one."""
    found = {}
    for name in ("tokenizer", "target_tokenizer"):
        if (folder / f"{name}.json").exists() or (name == "tokenizer" and config["kind"] != "vit"):
            found[name] = Tokenizer.load(folder / f"{name}.json", config.get("tokens", {}).get(name))
    return found


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a model directory by name."""
    path = folder / "model.safetensors"
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise HeedfulError(f"{path} cannot be read: {error}") from error


def by_budget(order: Sequence[int], widths: Sequence[int], budget: int) -> list[list[int]]:
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
