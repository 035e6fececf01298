"""A model is a directory: `config.json`, `model.safetensors`, `tokenizer.json` and `README.md`.

Some models have a second vocabulary (`target_tokenizer.json`), those for images have none. Nothing in a model directory
is executed when it is loaded, and no memory is allocated before the weights are known to fit the model.
"""

from __future__ import annotations

import json
import struct
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from heedful.errors import HeedfulError, UsageError
from heedful.jobs.registry import JOBS
from heedful.models import MODEL_KINDS
from heedful.models.weights import named_weights, weight_shapes
from heedful.runtime.files import os_error_sentence, read_json, write_whole
from heedful.settings import Json
from heedful.text import Tokenizer

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

REVERSE = "reverse"  # the run of the other direction, inside a run directory
WEIGHTS = "model.safetensors"
FORMAT = 1  # of a model directory; a newer one is refused, an older one is read
LARGEST_HEADER = 100_000_000  # bytes, the limit of the safetensors library
WRONG_SHOWN = 8  # how many differences between a model and its weights an error lists


class DirectoryConfig(TypedDict):
    """The `config.json` of a model directory."""

    format: int
    task: str
    kind: str  # of model
    model: dict[str, Json]  # settings of the model
    settings: dict[str, Json]  # of its pipeline
    tokens: NotRequired[dict[str, dict[str, str]]]  # special tokens of each tokenizer, where they are not the usual ones


def find_directory(folder: Path) -> Path:
    """A model directory itself, or the best model of a run."""
    try:
        if (folder / "config.json").is_file():
            return folder
        if not folder.is_dir():
            raise HeedfulError(f"there is no model directory {folder}")
        best = folder / "best"
        if (best / "config.json").is_file():
            return best
        is_run = (folder / "recipe.toml").is_file()
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    hint = f"; the run has not been validated yet, `heedful finish {folder}` makes a model from it" if is_run else ""
    raise HeedfulError(f"{folder} is not a model directory: it has no config.json{hint}")


def other_direction(folder: Path, only_asked: bool = False) -> Path | None:
    """The model of the other direction inside a run. With `only_asked`, only one that `--both` asked for,
    not one that was trained for back-translation."""
    reverse = folder / REVERSE
    if not (reverse / "best" / "config.json").is_file():
        return None
    if only_asked:
        recipe = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8")) if (folder / "recipe.toml").is_file() else {}
        return reverse if recipe.get("data", {}).get("both") else None
    return reverse


def towards(folder: Path, language: str) -> Path:
    """The model of a run, or of its other direction, that translates into a language."""
    found: dict[str, Path] = {}
    for one in (folder, other_direction(folder)):
        if one is not None:
            settings = read_config(find_directory(one))["settings"]
            found.setdefault(str(settings.get("target_language") or "an unknown language"), one)
    if language in found:
        return found[language]
    there_is = " and ".join(found)
    raise UsageError(
        f"{folder} translates into {there_is}, not into {language}; `heedful train … --both` trains both directions, and "
        "data.source_language and data.target_language name the languages"
    )


def read_config(folder: Path) -> DirectoryConfig:
    """The `config.json` of a model directory, checked to be readable by this version."""
    path = folder / "config.json"
    config = read_json(path)
    if isinstance(config, dict) and "model_type" in config and "format" not in config:
        raise HeedfulError(f"{folder} is a Hugging Face model; `heedful import {folder} OUT` converts it")
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise HeedfulError(f"{path} does not describe a heedful model")
    if type(config.get("format")) is not int or config["format"] > FORMAT:
        raise HeedfulError(f"{folder} was written by a newer heedful (format {str(config.get('format'))[:40]}); update heedful")
    config = {"settings": config.get("decoding", {}), **config}  # their name in the first version
    task, kind = config.get("task"), config.get("kind")
    if not isinstance(task, str) or task not in JOBS or not isinstance(kind, str) or kind not in MODEL_KINDS:
        raise HeedfulError(
            f"{path} names the task '{str(task)[:40]}' and the kind '{str(kind)[:40]}', which this version does not have"
        )
    for name in ("settings", "tokens"):
        if not isinstance(config.get(name, {}), dict):
            raise HeedfulError(f"{path} does not describe a heedful model: {name} must be an object")
    return cast(DirectoryConfig, config)  # as the checks above have shown, except inside `tokens`


def read_tokenizers(folder: Path, config: DirectoryConfig) -> dict[str, Tokenizer]:
    """The tokenizers of a model directory by the name of their file: `tokenizer`, and `target_tokenizer` if there is one."""
    found = {}
    for name in ("tokenizer", "target_tokenizer"):
        if (folder / f"{name}.json").exists() or (name == "tokenizer" and config["kind"] != "vit"):
            roles = config.get("tokens", {}).get(name)
            if roles is not None and not (isinstance(roles, dict) and all(isinstance(token, str) for token in roles.values())):
                raise HeedfulError(f"{folder / 'config.json'} does not name the special tokens of {name}.json by text")
            found[name] = Tokenizer.load(folder / f"{name}.json", roles)
    return found


def header_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor in a safetensors file, from its header alone."""
    try:
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > min(LARGEST_HEADER, path.stat().st_size):
                raise HeedfulError(f"{path} is not a complete safetensors file: its header would take {size:,} bytes")
            header = json.loads(file.read(size))
        return {name: tuple(int(n) for n in entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise HeedfulError(f"{path} is not a complete safetensors file: its header cannot be read") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error


def check_shapes(config: ModelConfig, found: Mapping[str, Sequence[int]], origin: str) -> None:
    """Raise an error, before anything is allocated, if tensors of these shapes do not fit a model with this config."""
    layers = sum(getattr(config, name, None) or 0 for name in ("layers", "decoder_layers"))
    if layers > len(found):  # the list of what is missing would be endless
        raise HeedfulError(f"{origin} does not fit the model: {layers:,} layers, but {len(found):,} tensors in all")
    wanted = weight_shapes(config)
    wrong = [f"missing {name}" for name in wanted if name not in found]
    wrong += [f"unknown {name}" for name in found if name not in wanted]
    wrong += [
        f"{name} is {list(found[name])} and should be {list(shape)}"
        for name, shape in wanted.items()
        if name in found and tuple(found[name]) != shape
    ]
    if wrong:
        more = f"; and {len(wrong) - WRONG_SHOWN:,} more" if len(wrong) > WRONG_SHOWN else ""
        raise HeedfulError(f"{origin} does not fit the model: {'; '.join(wrong[:WRONG_SHOWN])}{more}")


def write_weights(folder: Path, model: nn.Module) -> None:
    """Write `model.safetensors`, whole or not at all."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in named_weights(model).items()}
    write_whole(folder / WEIGHTS, lambda path: save_file(weights, path))


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a model directory by name."""
    path = folder / WEIGHTS
    header_shapes(path)  # rejects impossible sizes before the library allocates memory for them
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise HeedfulError(f"{path} cannot be read: {error}") from error
