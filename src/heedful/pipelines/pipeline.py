"""What every pipeline has: a model, its tokenizers and settings, saved and loaded as a directory."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from safetensors.torch import save_file

from heedful.data.drops import Drops
from heedful.errors import HeedfulError, UsageError
from heedful.jobs.options import Options
from heedful.jobs.registry import JOBS
from heedful.jobs.results import Result
from heedful.models import build_model, config_class, kind_of
from heedful.models.weights import load_weights, named_weights
from heedful.pipelines.directory import (
    FORMAT,
    check_shapes,
    find_directory,
    header_shapes,
    read_config,
    read_tokenizers,
    read_weights,
)
from heedful.runtime.files import write_text, write_whole
from heedful.settings import build, check_arguments
from heedful.text import Tokenizer

Example = TypeVar("Example")


class Pipeline(ABC, Generic[Example]):
    """A model, its tokenizers and the settings it is used with. A subclass says what it is used for.

    An `Example` is an input with the right answer, as `evaluate` and validations take it.
    """

    task: ClassVar[str]
    model: Any
    card: str = ""

    @property
    def device(self) -> torch.device:
        return next(iter(self.model.parameters())).device

    @contextmanager
    def working(self) -> Iterator[None]:
        """Inside, the model is used, not trained: no dropout, no gradients. Afterwards it is as it was."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(was_training)

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
    def run(self, inputs: Sequence[Any], options: Any = None) -> Sequence[Result]:
        """The job done on each input, in order; `options` are those of its verb. An input that cannot be used is an
        InputError that tells which."""

    @abstractmethod
    def read_examples(self, path: Path, drops: Drops) -> list[Example]:
        """Held-out data in the format of the job, as `predict` takes it; what cannot be used is counted in `drops`."""

    @abstractmethod
    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """What the model says of each labelled example, as JSON can hold it; `scores` compares it with the labels."""

    @abstractmethod
    def scores(self, examples: Sequence[Example], outputs: Sequence[Any]) -> dict[str, Any]:
        """The job's usual metrics of these predictions, by the names of `evaluation.score_names`."""

    @abstractmethod
    def samples(self, examples: Sequence[Example], outputs: Sequence[Any]) -> list[dict[str, str]]:
        """Examples for people to look at: `input`, `output` and `reference` of each."""

    def unknown_labels(self, example: Example) -> list[str]:
        """Labels of an example that the model cannot give, because it never saw them in training."""
        return []

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
            raise HeedfulError(f"{folder} is {JOBS[config['task']].what}, not {JOBS[cls.task].what}")
        tokenizers = read_tokenizers(folder, config)
        weights = folder / "model.safetensors"
        try:
            shape = build(config_class(config["kind"]), config["model"])
            check_shapes(shape, header_shapes(weights), str(weights))
            model = build_model(shape)
            pipeline = cls.assemble(model, tokenizers, check_arguments(cls.__init__, config["settings"]))
        except (TypeError, KeyError, UsageError) as error:
            raise HeedfulError(f"{folder / 'config.json'} does not describe a model: {error}") from error
        vocabularies = [
            getattr(model.config, key) for key in ("source_vocab", "target_vocab", "vocab") if hasattr(model.config, key)
        ]
        for (name, tokenizer), wanted in zip(tokenizers.items(), vocabularies, strict=False):
            if tokenizer.size > wanted:  # a model may know more than its tokenizer ever says
                raise HeedfulError(f"{folder / f'{name}.json'} has {tokenizer.size:,} tokens, but the model knows {wanted:,}")
        load_weights(model, read_weights(folder), str(weights))
        model.to(device).eval()
        card = folder / "README.md"
        pipeline.card = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        return pipeline


OptionsType = TypeVar("OptionsType", bound=Options)


def options_of(kind: type[OptionsType], options: Options | None) -> OptionsType:
    """The options of a request, or the defaults."""
    return options if isinstance(options, kind) else kind()


def as_list(inputs: Any) -> tuple[list[Any], bool]:
    """One input or several → a list, and whether it was one."""
    if isinstance(inputs, str | bytes | Path):
        return [inputs], True
    return list(inputs), False


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
