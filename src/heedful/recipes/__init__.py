"""Recipes: one TOML file describes a whole job; any value can be overridden as `section.key=value`.

Values are layered: the defaults below, then the recipe's preset, then the recipe, then (when it is named on the
command line) another preset, then the other overrides.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.errors import HeedfulError, UsageError, did_you_mean
from heedful.models.presets import find_preset
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.text import KINDS

FOLDER = Path(__file__).parent
METRICS = ("bleu", "chrf", "exact", "loss")
SCHEDULES = ("inverse-sqrt", "linear", "constant")


@dataclass(frozen=True)
class DataSettings:
    """Where the pairs come from. A TSV or JSONL of pairs is a `source` without a `target`."""

    source: str = ""
    target: str = ""
    valid_source: str = ""
    valid_target: str = ""
    test_source: str = ""
    test_target: str = ""
    generate: str = ""  # a corpus made on the spot instead of files: dates
    pairs: int = 200_000  # how many training pairs to generate
    hold_out: int = 1000  # pairs held out for validation when no validation files are given (at most a tenth)
    max_length: int = 256  # tokens; a longer training pair is dropped and counted


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens."""

    kind: str = "bpe"
    size: int = 8000
    joint: bool = True  # one vocabulary for both languages, or one each
    file: str = ""  # a ready-made tokenizer.json or BERT vocab.txt instead of training one
    sample: int = 2_000_000  # pairs a vocabulary is learned from, at most


@dataclass(frozen=True)
class TrainingSettings:
    """How the model is trained."""

    steps: int = 10_000
    seed: int = 1
    batch_tokens: int = 4096  # padded tokens of the longer side, over all workers
    accumulate: int = 1  # batches whose gradients make one step
    workers: int = 0  # processes; 0 picks
    device: str = "auto"
    precision: str = "auto"  # auto: bf16 where the device is good at it; float32; bf16
    schedule: str = "inverse-sqrt"
    warmup: int = 4000
    learning_rate: float = 0.0  # at its peak; 0 is the paper's, (d_model · warmup)^-0.5
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    clip: float = 1.0  # largest norm of the gradient; 0 never clips
    label_smoothing: float = 0.1
    validate_every: int = 500
    validate_pairs: int = 1000  # pairs translated at a validation; the end uses all
    metric: str = "bleu"  # what makes a checkpoint the best: bleu, chrf, exact or loss
    patience: int = 0  # validations without a new best before stopping; 0 never stops early
    checkpoint_every: int = 500
    average: int = 5  # the final weights are the mean of this many last checkpoints
    log_every: int = 50


@dataclass(frozen=True)
class DecodingSettings:
    """How the model writes."""

    beam: int = 4
    length_penalty: float = 0.6
    max_extra: int = 50  # longest output: input length + this
    validation_beam: int = 1  # while training, where speed matters more


MODEL_KEYS = {f.name: f.type for f in dataclasses.fields(Seq2SeqConfig) if not f.name.endswith("_vocab")} | {"preset": "str"}
SECTIONS: dict[str, Any] = {
    "data": DataSettings,
    "tokenizer": TokenizerSettings,
    "training": TrainingSettings,
    "decoding": DecodingSettings,
}


@dataclass(frozen=True)
class Recipe:
    """A whole job, every value settled."""

    name: str
    about: str = ""
    task: str = "translation"
    data: DataSettings = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)  # settings of the model, preset worked in
    training: TrainingSettings = field(default_factory=TrainingSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)

    def flat(self) -> dict[str, Any]:
        """`{"data.source": …, "model.heads": …}`"""
        sections = {name: dataclasses.asdict(getattr(self, name)) for name in SECTIONS} | {"model": self.model}
        order = ("data", "tokenizer", "model", "training", "decoding")
        return {f"{name}.{key}": value for name in order for key, value in sections[name].items()}

    def to_toml(self) -> str:
        """The recipe as a file that `heedful train` reads."""
        lines = [f"{key} = {json.dumps(getattr(self, key), ensure_ascii=False)}" for key in ("name", "about", "task")]
        section = ""
        for full, value in self.flat().items():
            name, key = full.split(".", 1)
            if name != section:
                lines += ["", f"[{name}]"]
                section = name
            # TOML has no null, and leaving it out would bring back the preset's value.
            lines.append(f"{key} = {json.dumps('none' if value is None else value, ensure_ascii=False)}")
        return "\n".join(lines).replace("\x7f", "\\u007f") + "\n"  # the one character that JSON allows and TOML does not


def shipped_recipes() -> dict[str, Path]:
    """Name → file of every recipe that comes with heedful."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """A shipped recipe by name, or a TOML file by path, with overrides such as `training.steps=100`."""
    shipped = shipped_recipes()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        if path.suffix == ".toml":
            raise UsageError(f"there is no recipe file {path}")
        raise UsageError(f"there is no recipe '{name}'{did_you_mean(name, shipped)}")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HeedfulError(f"{path} is not valid TOML: {error}") from error
    return resolve(raw, overrides, path.stem if path.stem != "recipe" else path.parent.name)


def resolve(raw: Mapping[str, Any], overrides: Iterable[str] = (), name: str = "recipe") -> Recipe:
    """Check and layer a recipe's content and overrides."""
    top = {"name", "about", "task"}
    sections = {*SECTIONS, "model"}
    given: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for key, value in raw.items():
        if key in sections:
            if not isinstance(value, dict):
                raise UsageError(f"[{key}] must be a section")
            given[key] = {inner: _check(key, inner, content) for inner, content in value.items()}
        elif key not in top:
            raise UsageError(f"there is no section '{key}'{did_you_mean(key, sections | top)}")
    asked: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for override in overrides:
        full, equals, text = override.partition("=")
        section, dot, key = full.partition(".")
        if not equals or not dot:
            raise UsageError(f"'{override}' is not of the form section.key=value, such as training.steps=1000")
        if section not in sections:
            raise UsageError(f"there is no section '{section}'{did_you_mean(section, sections)}")
        asked[section][key] = _parse(section, key, text)

    renamed = "preset" in asked["model"]
    preset_name = asked["model"].get("preset", given["model"].get("preset", "base"))
    preset = find_preset(preset_name)

    def layer(section: str, of_preset: Mapping[str, Any]) -> dict[str, Any]:
        below = [given[section], of_preset] if renamed else [of_preset, given[section]]
        return {**below[0], **below[1], **asked[section]}

    model = {**layer("model", preset.model), "preset": preset_name}
    if "tie" not in model:
        joint = layer("tokenizer", {}).get("joint", TokenizerSettings.joint)
        model["tie"] = "all" if joint else "target"  # two vocabularies cannot share one matrix
    built = {
        section: kind(**layer(section, preset.training if section == "training" else {})) for section, kind in SECTIONS.items()
    }
    recipe = Recipe(
        str(raw.get("name", name)), str(raw.get("about", "")), str(raw.get("task", "translation")), model=model, **built
    )
    _validate(recipe)
    return recipe


def model_settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe's model section as keyword arguments of the model's config."""
    return {key: value for key, value in recipe.model.items() if key != "preset"}


def _type_of(section: str, key: str) -> Any:
    if section == "model":
        known: Mapping[str, Any] = typing.get_type_hints(Seq2SeqConfig) | {"preset": str}
        known = {name: known[name] for name in MODEL_KEYS}
    else:
        known = typing.get_type_hints(SECTIONS[section])
    if key not in known:
        raise UsageError(f"there is no setting '{section}.{key}'{did_you_mean(key, known)}")
    return known[key]


def _plain(kind: Any) -> tuple[type, bool]:
    """int | None → (int, True)"""
    if isinstance(kind, types.UnionType):
        return next(part for part in kind.__args__ if part is not type(None)), True
    return kind, False


def _check(section: str, key: str, value: Any) -> Any:
    """A value from TOML, of the right type."""
    kind, optional = _plain(_type_of(section, key))
    if optional and value == "none":
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{section}.{key} must be {_kind_name(kind)}, not {value!r}")
    return value


def _parse(section: str, key: str, text: str) -> Any:
    """A value from the command line."""
    kind, optional = _plain(_type_of(section, key))
    if optional and text.lower() in ("", "none"):
        return None
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
        if kind is int:
            return int(text.replace("_", ""))
        return kind(text)
    except (KeyError, ValueError) as error:
        raise UsageError(f"{section}.{key} must be {_kind_name(kind)}, not '{text}'") from error


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]


def _validate(recipe: Recipe) -> None:
    """Values that no type can rule out."""
    training, tokenizer, decoding, data = recipe.training, recipe.tokenizer, recipe.decoding, recipe.data
    at_least: list[tuple[str, float, float]] = [
        *((f"training.{key}", getattr(training, key), 1) for key in (
            "steps", "batch_tokens", "accumulate", "warmup", "validate_every", "validate_pairs", "checkpoint_every",
            "average", "log_every",
        )),
        *((f"training.{key}", getattr(training, key), 0) for key in (
            "workers", "learning_rate", "clip", "patience", "seed", "epsilon",
        )),
        ("decoding.beam", decoding.beam, 1),
        ("decoding.validation_beam", decoding.validation_beam, 1),
        ("decoding.max_extra", decoding.max_extra, 0),
        ("decoding.length_penalty", decoding.length_penalty, 0),
        ("data.max_length", data.max_length, 1),
        ("data.hold_out", data.hold_out, 1),
        ("data.pairs", data.pairs, 1),
        ("tokenizer.size", tokenizer.size, 8),
        ("tokenizer.sample", tokenizer.sample, 1),
    ]  # fmt: skip
    for key, value, least in at_least:
        if not value >= least:
            raise UsageError(f"{key} must be at least {least}, not {value}")
    for key, value in recipe.flat().items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{key} must be a finite number, not {value}")
    for key in ("label_smoothing", "beta1", "beta2"):
        if not 0.0 <= getattr(training, key) < 1.0:
            raise UsageError(f"training.{key} must be at least 0 and below 1, not {getattr(training, key)}")
    choices = {
        "tokenizer.kind": (tokenizer.kind, KINDS),
        "training.metric": (training.metric, METRICS),
        "training.schedule": (training.schedule, SCHEDULES),
        "training.precision": (training.precision, ("auto", "float32", "bf16")),
        "data.generate": (data.generate, ("", "dates")),
        "task": (recipe.task, ("translation",)),
    }
    for key, (chosen, allowed) in choices.items():
        if chosen not in allowed:
            raise UsageError(f"{key} must be one of {', '.join(a for a in allowed if a)}, not '{chosen}'")
    if data.generate and (data.source or data.valid_source or data.test_source):
        raise UsageError(f"data.generate={data.generate} makes its own text; for files use the recipe 'translation'")
    if recipe.model["tie"] == "all" and not tokenizer.joint:
        raise UsageError("model.tie=all needs one vocabulary for both languages; use tie=target or tokenizer.joint=true")
    for side in ("", "valid_", "test_"):
        if getattr(data, f"{side}target") and not getattr(data, f"{side}source"):
            raise UsageError(f"data.{side}target is given without data.{side}source")
    # A model of the smallest vocabularies checks every other setting before any work is done.
    Seq2SeqConfig(8, 8, **model_settings(recipe))
