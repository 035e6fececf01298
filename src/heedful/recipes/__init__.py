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
from heedful.models import config_class
from heedful.models.presets import PRESETS, find_preset
from heedful.recipes.jobs import JOBS, Job, PairSettings
from heedful.text import KINDS

FOLDER = Path(__file__).parent
PAIRED = ("seq2seq", "recurrent")  # kinds of model that read one text and write another
WRITERS = (*PAIRED, "gpt")  # kinds that write text
SCHEDULES = ("inverse-sqrt", "linear", "constant")
OPTIMIZERS = ("adam", "muon")


@dataclass(frozen=True)
class TokenizerSettings:
    """How text becomes tokens."""

    kind: str = "bpe"
    size: int = 8000
    joint: bool = True  # one vocabulary for both languages of a pair, or one each
    file: str = ""  # a ready-made tokenizer.json or BERT vocab.txt instead of training one
    sample: int = 2_000_000  # pairs, lines or texts a vocabulary is learned from, at most


@dataclass(frozen=True)
class TrainingSettings:
    """How the model is trained."""

    steps: int = 10_000
    seed: int = 1
    batch_tokens: int = 4096  # padded tokens (of the longer side), or patches of images, over all workers
    batch_examples: int = 0  # at most so many examples a batch; 0 sets no limit
    accumulate: int = 1  # batches whose gradients make one step
    workers: int = 0  # processes; 0 picks
    shard: bool = False  # every process holds a part of the weights (FSDP2), for models that do not fit into one
    device: str = "auto"
    precision: str = "auto"  # auto: bf16 where the device is good at it; float32; bf16
    schedule: str = "inverse-sqrt"
    warmup: int = 4000
    learning_rate: float = 0.0  # at its peak; 0 is the paper's, (d_model · warmup)^-0.5
    optimizer: str = "adam"  # or muon, for the matrices inside the layers
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0  # share of every matrix taken away at a step, times the learning rate (AdamW)
    clip: float = 1.0  # largest norm of the gradient; 0 never clips
    label_smoothing: float = 0.1
    validate_every: int = 500
    validate_pairs: int = 1000  # pairs or examples judged at a validation; the end uses all
    metric: str = ""  # what makes a checkpoint the best; empty is the job's usual one, such as bleu
    patience: int = 0  # validations without a new best before stopping; 0 never stops early
    checkpoint_every: int = 500
    average: int = 5  # the final weights are the mean of this many last checkpoints
    ema: float = 0.0  # judge and keep a running mean of the weights instead, of which this share stays at a step
    bpe_dropout: float = 0.0  # chance that a token is taken apart into the two it was merged from, while training
    r_drop: float = 0.0  # weight of the disagreement between two passes with other dropout (R-Drop); a step costs twice
    r_drop_from: float = 0.0  # share of the steps after which R-Drop begins
    log_every: int = 50


@dataclass(frozen=True)
class DecodingSettings:
    """How the model writes."""

    beam: int = 4
    length_penalty: float = 0.6
    max_extra: int = 50  # longest output: input length + this
    validation_beam: int = 1  # while training, where speed matters more


SECTIONS: dict[str, Any] = {
    "tokenizer": TokenizerSettings,
    "training": TrainingSettings,
    "decoding": DecodingSettings,
}
# Settings of the model section that are not settings of a model: how it comes about.
ORIGIN = {"kind": str, "preset": str, "pretrained": str}


@dataclass(frozen=True)
class Recipe:
    """A whole job, every value settled."""

    name: str
    about: str = ""
    task: str = "translation"
    data: Any = field(default_factory=PairSettings)  # the settings class of the task
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)  # settings of the model, kind and preset, which is worked in
    training: TrainingSettings = field(default_factory=TrainingSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)

    def flat(self) -> dict[str, Any]:
        """`{"data.source": …, "model.heads": …}`"""
        sections = {name: dataclasses.asdict(getattr(self, name)) for name in ("data", *SECTIONS)} | {"model": self.model}
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
    sections = {"data", *SECTIONS, "model"}
    task = str(raw.get("task", "translation"))
    if task not in JOBS:
        raise UsageError(f"there is no task '{task}'{did_you_mean(task, JOBS)}")
    job = JOBS[task]
    for key, value in raw.items():
        if key in sections and not isinstance(value, dict):
            raise UsageError(f"[{key}] must be a section")
        if key not in sections | top:
            raise UsageError(f"there is no section '{key}'{did_you_mean(key, sections | top)}")
    written: dict[str, dict[str, str]] = {section: {} for section in sections}
    for override in overrides:
        full, equals, text = override.partition("=")
        section, dot, key = full.partition(".")
        if not equals or not dot:
            raise UsageError(f"'{override}' is not of the form section.key=value, such as training.steps=1000")
        if section not in sections:
            raise UsageError(f"there is no section '{section}'{did_you_mean(section, sections)}")
        written[section][key] = text

    raw_model = raw.get("model", {})
    own_kind = str(raw_model.get("kind", find_preset(str(raw_model.get("preset", job.preset))).kind))
    asked_preset = written["model"].get("preset")
    kind = written["model"].get("kind") or (find_preset(asked_preset).kind if asked_preset else own_kind)
    if kind not in job.kinds:
        raise UsageError(f"model.kind must be {' or '.join(job.kinds)} for {task}, not '{kind}'")
    default = job.preset if find_preset(job.preset).kind == kind else next(p for p in PRESETS if PRESETS[p].kind == kind)
    preset_name = asked_preset or str(raw_model.get("preset", default) if kind == own_kind else default)
    preset = find_preset(preset_name)
    if preset.kind != kind:
        raise UsageError(f"preset '{preset_name}' is of the kind {preset.kind}, not {kind}")

    known = _known(job, own_kind)
    given = {
        section: {key: _check(known, section, key, value) for key, value in raw.get(section, {}).items()} for section in sections
    }
    known = _known(job, kind)
    asked = {
        section: {key: _parse(known, section, key, text) for key, text in values.items()} for section, values in written.items()
    }
    if kind != own_kind:  # what a recipe says of one kind of model mostly means nothing to another
        given["model"] = {
            key: value for key, value in given["model"].items() if key in known["model"] and key not in preset.model
        }

    def layer(section: str, of_preset: Mapping[str, Any]) -> dict[str, Any]:
        below = [given[section], of_preset] if asked_preset else [of_preset, given[section]]
        return {**below[0], **below[1], **asked[section]}

    shape = {key: value for key, value in preset.model.items() if key not in job.fixed}
    model = {**layer("model", shape), "kind": kind, "preset": preset_name}
    if kind in PAIRED and "tie" not in model:
        joint = layer("tokenizer", {}).get("joint", TokenizerSettings.joint)
        model["tie"] = "all" if joint else "target"  # two vocabularies cannot share one matrix
    if model.setdefault("pretrained", ""):
        # What a recipe says of a fresh model does not count, but what it says beside its own `pretrained` does.
        model = _from_pretrained(model, (given["model"] if raw_model.get("pretrained") else {}) | asked["model"])
    data = layer("data", {})
    if any(data.get(key) for key in FILES) and "generate" not in asked["data"]:
        data["generate"] = ""  # the user's own files take the place of the recipe's default
    built = {
        section: settings(**layer(section, preset.training if section == "training" else {}))
        for section, settings in SECTIONS.items()
    }
    if not built["training"].metric:
        built["training"] = dataclasses.replace(built["training"], metric=job.metrics[0])
    recipe = Recipe(str(raw.get("name", name)), str(raw.get("about", "")), task, job.data(**data), model=model, **built)
    _validate(recipe, job)
    return recipe


FILES = ("source", "valid_source", "test_source", "train", "valid", "test")
# What may be chosen anew for a model that goes on from pre-trained weights; its shape is settled.
KEPT = ("dropout", "attention_dropout", "pooling")


def _from_pretrained(model: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The model section of a recipe that goes on from a model directory, which decides the shape."""
    fixed = [key for key in asked if key not in (*KEPT, *ORIGIN)]
    if fixed:
        raise UsageError(f"model.{fixed[0]} cannot be changed: model.pretrained={model['pretrained']} decides it")
    return {key: value for key, value in model.items() if key in ORIGIN or (key in KEPT and key in asked)}


def model_settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe's model section as keyword arguments of the model's config."""
    return {key: value for key, value in recipe.model.items() if key not in ORIGIN}


def _known(job: Job, kind: str) -> dict[str, Mapping[str, Any]]:
    """Section → setting → type."""
    config = config_class(kind)
    hints = typing.get_type_hints(config)
    model = {f.name: hints[f.name] for f in dataclasses.fields(config) if f.name not in job.fixed} | ORIGIN
    rest = {section: typing.get_type_hints(settings) for section, settings in {"data": job.data, **SECTIONS}.items()}
    return {"model": model, **rest}


def _type_of(known: Mapping[str, Mapping[str, Any]], section: str, key: str) -> Any:
    if key not in known[section]:
        raise UsageError(f"there is no setting '{section}.{key}'{did_you_mean(key, known[section])}")
    return known[section][key]


def _plain(kind: Any) -> tuple[type, bool]:
    """int | None → (int, True)"""
    if isinstance(kind, types.UnionType):
        return next(part for part in kind.__args__ if part is not type(None)), True
    return kind, False


def _check(known: Mapping[str, Mapping[str, Any]], section: str, key: str, value: Any) -> Any:
    """A value from TOML, of the right type."""
    kind, optional = _plain(_type_of(known, section, key))
    if optional and value == "none":
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{section}.{key} must be {_kind_name(kind)}, not {value!r}")
    return value


def _parse(known: Mapping[str, Mapping[str, Any]], section: str, key: str, text: str) -> Any:
    """A value from the command line."""
    kind, optional = _plain(_type_of(known, section, key))
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


def _validate(recipe: Recipe, job: Job) -> None:
    """Values that no type can rule out."""
    training, tokenizer, data = recipe.training, recipe.tokenizer, recipe.data
    flat = recipe.flat()
    at_least = {
        **{f"training.{key}": 1 for key in (
            "steps", "batch_tokens", "accumulate", "warmup", "validate_every", "validate_pairs", "checkpoint_every",
            "average", "log_every",
        )},
        **{f"training.{key}": 0 for key in (
            "workers", "learning_rate", "clip", "patience", "seed", "epsilon", "weight_decay", "batch_examples", "r_drop",
        )},
        "decoding.beam": 1, "decoding.validation_beam": 1, "decoding.max_extra": 0, "decoding.length_penalty": 0,
        "data.max_length": 8 if recipe.model["kind"] == "bert" else 1,  # room for the special tokens, a question and a passage
        "data.hold_out": 1 if isinstance(data.hold_out, int) else 0, "data.pairs": 1,
        "data.size": 1, "data.channels": 1, "data.crop": 0, "data.mixup": 0, "data.stride": 0, "data.max_answer": 1,
        "tokenizer.size": 8, "tokenizer.sample": 1,
    }  # fmt: skip
    for key, least in at_least.items():
        if key in flat and not flat[key] >= least:
            raise UsageError(f"{key} must be at least {least}, not {flat[key]}")
    for key, value in flat.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{key} must be a finite number, not {value}")
    shares = [
        "training.label_smoothing",
        "training.beta1",
        "training.beta2",
        "training.ema",
        "training.bpe_dropout",
        "training.r_drop_from",
        "data.masked",
    ]
    shares += ["data.hold_out"] if isinstance(data.hold_out, float) else []
    for key in shares:
        if key in flat and not 0.0 <= flat[key] < 1.0:
            raise UsageError(f"{key} must be at least 0 and below 1, not {flat[key]}")
    choices = {
        "tokenizer.kind": (tokenizer.kind, KINDS),
        "training.metric": (training.metric, job.metrics),
        "training.schedule": (training.schedule, SCHEDULES),
        "training.optimizer": (training.optimizer, OPTIMIZERS),
        "training.precision": (training.precision, ("auto", "float32", "bf16")),
        "data.generate": (data.generate, ("", job.generate)),
        "data.split": (flat.get("data.split", "spaces"), ("spaces", "words")),
        "data.channels": (flat.get("data.channels", 3), (1, 3)),
    }
    for key, (chosen, allowed) in choices.items():
        if chosen not in allowed:
            raise UsageError(f"{key} must be one of {', '.join(str(a) for a in allowed if a)}, not '{chosen}'")
    if data.generate and any(flat.get(f"data.{key}") for key in FILES):
        raise UsageError(f"data.generate={data.generate} makes its own data; leave it out to use files")
    if training.r_drop and recipe.model["kind"] not in WRITERS:
        raise UsageError(f"training.r_drop is for models that write text ({', '.join(WRITERS)}), not for {recipe.model['kind']}")
    if training.optimizer == "muon" and (training.shard or recipe.model["kind"] == "recurrent"):
        raise UsageError("training.optimizer=muon needs the whole matrices of layers: no training.shard, no recurrent model")
    if training.bpe_dropout and (recipe.model["kind"] not in PAIRED or tokenizer.kind != "bpe"):
        raise UsageError(
            "training.bpe_dropout takes merges of BPE back, of translation and summarization with tokenizer.kind=bpe"
        )
    if recipe.model.get("tie") == "all" and not tokenizer.joint:
        raise UsageError("model.tie=all needs one vocabulary for both languages; use tie=target or tokenizer.joint=true")
    for side in ("", "valid_", "test_"):
        if flat.get(f"data.{side}target") and not flat[f"data.{side}source"]:
            raise UsageError(f"data.{side}target is given without data.{side}source")
    if recipe.model["kind"] == "bert" and data.max_length > recipe.model.get("max_positions", data.max_length):
        raise UsageError(f"data.max_length {data.max_length} is more than model.max_positions {recipe.model['max_positions']}")
    if not recipe.model["pretrained"]:
        # A model of the smallest data checks every other setting before any work is done.
        smallest = {
            "source_vocab": 8, "target_vocab": 8, "vocab": 8, "classes": 0 if job.head == "pretraining" else 2,
            "head": job.head, "image_size": flat.get("data.size"), "channels": flat.get("data.channels"),
        }  # fmt: skip
        config_class(recipe.model["kind"])(**{key: smallest[key] for key in job.fixed}, **model_settings(recipe))
