"""The interface between the trainer and a job, and what all jobs share: model, validation, pre-trained weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from heedful.data.batches import Position
from heedful.data.collation import TensorBatch
from heedful.data.prepare import Facts, Reporter, read_manifest
from heedful.errors import HeedfulError
from heedful.evaluation.score_names import Scores
from heedful.jobs.registry import JOBS
from heedful.models import build_model, config_class
from heedful.models.weights import take_weights
from heedful.nn.fast.loss import label_smoothed_loss
from heedful.pipelines.model_directory import DirectoryConfig, find_directory, read_config, read_tokenizers, read_weights
from heedful.pipelines.pipeline import AnyPipeline
from heedful.recipes import Recipe, model_settings
from heedful.runtime.processes import Processes
from heedful.text import Tokenizer

SAMPLES = 8
ModelType = TypeVar("ModelType", bound=nn.Module)
BatchType = TypeVar("BatchType", bound=TensorBatch)
WrittenBatch = TypeVar("WrittenBatch", bound=TensorBatch, contravariant=True)

HEADS = ("classifier", "pooler", "pooling", "masked_language", "next_sentence", "head")  # parts that a pre-trained model may lack


class Task(ABC, Generic[ModelType, BatchType]):
    """A job: built from a recipe and the folder that `prepare` filled. A subclass sets `valid`, `test` and `config`."""

    unit = "examples"  # what the loss is averaged over
    valid: Sequence[Any]
    test: Sequence[Any]
    config: Any  # of the model; a subclass says which

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Recipe, folder: Path, reporter: Reporter) -> None:
        """Prepare the data once, for every process to load."""

    @abstractmethod
    def batches(self, position: Position, rank: int, world: int) -> Iterator[tuple[Position, BatchType | None]]:
        """This process's share of the data from a position on."""

    @abstractmethod
    def loss(self, model: ModelType, batch: BatchType) -> tuple[Tensor, Tensor, int]:
        """Sums over the batch: the loss to train on, the loss to report, and the number of units they sum over.

        A task whose model writes text also takes `r_drop`, the weight of R-Drop.
        """

    @abstractmethod
    def pipeline(self, model: ModelType, quick: bool = False) -> AnyPipeline:
        """The pipeline that people will use the model with; `quick` for validation during training, where speed matters more."""

    def describe_search(self, quick: bool = False) -> str:
        """How the model decodes when it is scored: `greedy` or `beam 4`; empty if the job involves no search."""
        return ""

    def model_config(self, **decided: Any) -> Any:
        """The config of the model: settings from the recipe, and those that the data determines."""
        wanted, start = self.recipe.model, {}
        if wanted["pretrained"]:
            start = pretrained_config(self.recipe)["model"]
            decided = {key: value for key, value in decided.items() if not key.endswith("vocab")}  # it keeps its own
        return config_class(wanted["kind"])(**{**start, **decided, **model_settings(self.recipe)})

    def build_model(self) -> ModelType:
        """Fresh weights by the recipe's seed, or pre-trained ones."""
        torch.manual_seed(self.recipe.training.seed)
        model: ModelType = build_model(self.config)
        if self.recipe.model["pretrained"]:
            folder = find_directory(Path(self.recipe.model["pretrained"]))
            take_weights(model, self.pretrained_weights(), str(folder / "model.safetensors"), HEADS)
        return model

    def pretrained_weights(self) -> dict[str, Tensor]:
        """The weights of the pre-trained model by name."""
        return read_weights(find_directory(Path(self.recipe.model["pretrained"])))

    def validate(self, model: ModelType, processes: Processes, everything: bool = False) -> Scores:
        """Scores on the validation examples, and samples."""
        limit = None if everything else self.recipe.training.validate_pairs
        return self.score(model, self.valid[:limit], processes, quick=not everything)

    def score(self, model: ModelType, examples: Sequence[Any], processes: Processes, quick: bool = False) -> Scores:
        """Scores of the model on any examples, divided among the processes; and samples."""
        pipeline = self.pipeline(model, quick)
        outputs: list[Any] = [None] * len(examples)
        for rank, part in enumerate(processes.gather(pipeline.predict(examples[processes.rank :: processes.world]))):
            outputs[rank :: processes.world] = part
        shown = pipeline.samples(examples[:SAMPLES], outputs[:SAMPLES])
        return {**pipeline.scores(examples, outputs), "samples": shown}


AnyTask: TypeAlias = Task[Any, Any]  # of any job


class TextModel(Protocol[WrittenBatch]):
    """What the loss needs of a model that writes text: `Seq2Seq`, `Recurrent` or `GPT`."""

    def training_states(self, batch: WrittenBatch) -> tuple[Tensor, Tensor, Tensor | None, Tensor]: ...


def writing_loss(model: TextModel[WrittenBatch], batch: WrittenBatch, smoothing: float, r_drop: float) -> tuple[Tensor, Tensor]:
    """The loss to train on and the loss to report for a model that writes text; with R-Drop the mean of two passes."""
    states, weight, bias, answers = model.training_states(batch.twice() if r_drop else batch)
    loss, nll = label_smoothed_loss(states, weight, bias, answers, smoothing, r_drop)
    return (loss / 2, nll / 2) if r_drop else (loss, nll)


def pretrained_config(recipe: Recipe) -> DirectoryConfig:
    """The config.json of the pre-trained model that a recipe starts from."""
    folder = find_directory(Path(recipe.model["pretrained"]))
    config = read_config(folder)
    if config["kind"] != recipe.model["kind"]:
        remedy = f"; to continue from it, give model.kind={config['kind']}" if config["kind"] in JOBS[recipe.task].kinds else ""
        raise HeedfulError(f"{folder} is a {config['kind']} model; {recipe.task} needs a {recipe.model['kind']} model{remedy}")
    return config


def ready_tokenizer(recipe: Recipe) -> Tokenizer | None:
    """The tokenizer of the pre-trained model, or of `tokenizer.file`; None if one has to be trained."""
    if recipe.model["pretrained"]:
        folder = find_directory(Path(recipe.model["pretrained"]))
        return read_tokenizers(folder, pretrained_config(recipe))["tokenizer"]
    return Tokenizer.load(recipe.tokenizer.file) if recipe.tokenizer.file else None


def ready_files(recipe: Recipe) -> list[Path]:
    """The files whose content the ready tokenizers depend on."""
    if recipe.model["pretrained"]:
        return sorted(find_directory(Path(recipe.model["pretrained"])).glob("*tokenizer.json"))
    return [Path(recipe.tokenizer.file)] if recipe.tokenizer.file else []


def keep_tokenizer(tokenizer: Tokenizer, folder: Path) -> Facts:
    """Write a tokenizer into the prepared folder; returns facts about it for the manifest."""
    tokenizer.save(folder / "tokenizer.json")
    return {"roles": tokenizer.roles}


def kept_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a prepared folder."""
    return Tokenizer.load(folder / "tokenizer.json", read_manifest(folder)["roles"])
