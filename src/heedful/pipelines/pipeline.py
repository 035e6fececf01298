"""What every pipeline has: a model, its tokenizers and settings, saved and loaded as a directory."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, overload

import torch

from heedful.data.drops import Drops
from heedful.errors import HeedfulError, InputError, UsageError
from heedful.evaluation.score_names import Sample, Scores
from heedful.jobs.options import Options
from heedful.jobs.registry import JOBS
from heedful.jobs.results import Result
from heedful.models import build_model, config_class, kind_of
from heedful.models.weights import load_weights
from heedful.pipelines.model_directory import (
    FORMAT,
    WEIGHTS,
    check_shapes,
    find_directory,
    header_shapes,
    read_config,
    read_tokenizers,
    read_weights,
    write_weights,
)
from heedful.runtime.files import write_text, write_whole
from heedful.settings import Json, Values, build, check_arguments
from heedful.text import Tokenizer

Example = TypeVar("Example")
ModelOutput = TypeVar("ModelOutput")


class Pipeline(ABC, Generic[Example, ModelOutput]):
    """A model, its tokenizers and the settings it is used with. There is one subclass per job.

    An `Example` is an input with its correct answer, as in evaluation and validation; a `ModelOutput` is the model's
    prediction for it.
    """

    task: ClassVar[str]
    model: Any  # a subclass says which
    card: str = ""
    labels: Sequence[str] = ()  # the classes of a classifier or a tagger

    @property
    def device(self) -> torch.device:
        return next(iter(self.model.parameters())).device

    @contextmanager
    def working(self) -> Iterator[None]:
        """Inside the block, the model is in evaluation mode: no dropout, no gradients. Afterwards its mode is restored."""
        was_training = self.model.training
        if was_training:  # it takes a millisecond
            self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            if was_training:
                self.model.train()

    # Defined by each subclass

    @property
    @abstractmethod
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Name of the file, without .json → tokenizer."""

    @property
    def settings(self) -> dict[str, Json]:
        """The other arguments of the constructor, as JSON values."""
        return {}

    @classmethod
    @abstractmethod
    def assemble(cls, model: Any, tokenizers: dict[str, Tokenizer], settings: Values) -> Self:
        """Build the pipeline from its parts, the reverse of `tokenizers` and `settings`."""

    @abstractmethod
    def run(self, inputs: Sequence[Any], options: Options | None = None) -> Sequence[Result]:
        """The results for the inputs, in order; `options` are those of the verb. An input that cannot be used raises an
        InputError with its index."""

    @abstractmethod
    def read_examples(self, path: Path, drops: Drops) -> list[Example]:
        """Read held-out data in the format of the job; examples that cannot be used are counted in `drops`."""

    @abstractmethod
    def predict(self, examples: Sequence[Example]) -> list[ModelOutput]:
        """The model's prediction for each example; `scores` compares it with the right answer."""

    @abstractmethod
    def scores(self, examples: Sequence[Example], outputs: Sequence[ModelOutput]) -> Scores:
        """The job's usual metrics of these predictions, by the names of `evaluation.score_names`."""

    @abstractmethod
    def samples(self, examples: Sequence[Example], outputs: Sequence[ModelOutput]) -> list[Sample]:
        """Examples for people to look at: `input`, `output` and `reference` of each."""

    def unknown_labels(self, example: Example) -> list[str]:
        """Labels of an example that the model cannot predict, because it never saw them in training."""
        return []

    # The directory

    def save(self, folder: str | Path, card: str | None = None) -> None:
        """Write the model directory; every file appears whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config: dict[str, Json] = {
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
        write_weights(folder, self.model)
        write_text(folder / "README.md", self.card if card is None else card)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Self:
        """Read a model directory."""
        folder = find_directory(Path(folder))
        config = read_config(folder)
        if config["task"] != cls.task:
            raise HeedfulError(f"{folder} is {JOBS[config['task']].what}, not {JOBS[cls.task].what}")
        tokenizers = read_tokenizers(folder, config)
        weights = folder / WEIGHTS
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
            if tokenizer.size > wanted:  # a model may have spare tokens that its tokenizer never gives
                raise HeedfulError(
                    f"{folder / f'{name}.json'} has {tokenizer.size:,} tokens, but the model's vocabulary has {wanted:,}"
                )
        load_weights(model, read_weights(folder), str(weights))
        model.to(device).eval()
        card = folder / "README.md"
        pipeline.card = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        return pipeline


def run_each(pipeline: AnyPipeline, group: Sequence[Any], options: Options) -> list[Sequence[Result] | InputError]:
    """The results for every input (one or more each), or why it cannot be used; a bad input does not affect the others.

    An input may already be an InputError.
    """
    errors: dict[int, InputError] = {index: given for index, given in enumerate(group) if isinstance(given, InputError)}
    while True:
        usable = [index for index in range(len(group)) if index not in errors]
        try:
            results = pipeline.run([group[index] for index in usable], options) if usable else []
            break
        except InputError as error:
            errors[usable[error.index]] = error
    each = len(results) // len(usable) if usable else 0
    found = {index: results[number * each : (number + 1) * each] for number, index in enumerate(usable)}
    return [errors[index] if index in errors else found[index] for index in range(len(group))]


Texts: TypeAlias = list[str] | tuple[str, ...]  # several; a Sequence[str] could be a single text, too
AnyPipeline: TypeAlias = Pipeline[Any, Any]  # of any job
OptionsType = TypeVar("OptionsType", bound=Options)


def options_of(kind: type[OptionsType], options: Options | None) -> OptionsType:
    """The options of a request, or the defaults."""
    return options if isinstance(options, kind) else kind()


@overload
def as_list(inputs: str | Sequence[str]) -> tuple[list[str], bool]: ...
@overload
def as_list(inputs: str | Path | Sequence[str | Path]) -> tuple[list[str | Path], bool]: ...
def as_list(inputs: str | Path | Sequence[str | Path]) -> tuple[list[str] | list[str | Path], bool]:
    """One input or several → a list, and whether it was one."""
    return ([inputs], True) if isinstance(inputs, str | Path) else (list(inputs), False)


def by_budget(order: Sequence[int], widths: Sequence[int], budget: int) -> list[list[int]]:
    """Split an order into batches whose padded size is at most the budget, or that have a single entry."""
    batches: list[list[int]] = []
    widest = 0
    for i in order:
        widest = max(widest, widths[i])
        if not batches or widest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            widest = widths[i]
        batches[-1].append(i)
    return batches
