"""A recipe: one TOML file describes a whole job; any value can be overridden as `section.key=value`.

Values are layered: the defaults of the settings, then the recipe's preset, then the recipe, then (when it is named on the
command line) another preset, then the other overrides.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from annotated_types import Interval

from heedful.errors import HeedfulError, UsageError, did_you_mean
from heedful.jobs.data import PairSettings
from heedful.jobs.registry import JOBS, PAIRED, TRAINABLE, Job
from heedful.models import config_class
from heedful.models.presets import PRESETS, Preset, find_preset
from heedful.recipes.settings import DecodingSettings, TokenizerSettings, TrainingSettings
from heedful.runtime.files import os_error_sentence
from heedful.settings import from_json, from_text, hints

FOLDER = Path(__file__).parent
WRITERS = (*PAIRED, "gpt")  # kinds that write text
SECTIONS: dict[str, Any] = {"tokenizer": TokenizerSettings, "training": TrainingSettings, "decoding": DecodingSettings}
ORDER = ("data", "tokenizer", "model", "training", "decoding")
TOP = ("name", "about", "task")
# Settings of the model section that are not settings of a model: how it comes about.
ORIGIN = {"kind": str, "preset": str, "pretrained": str}
FILES = ("source", "valid_source", "test_source", "train", "valid", "test")
ALIASES = {"multi30k": "translation"}  # the name under which the comparison with published models is reproduced
# What may be chosen anew for a model that goes on from pre-trained weights; its shape is settled.
KEPT = ("dropout", "attention_dropout", "pooling")


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

    def sections(self) -> dict[str, dict[str, Any]]:
        """Section → setting → value."""
        return {name: self.model if name == "model" else dataclasses.asdict(getattr(self, name)) for name in ORDER}

    def flat(self) -> dict[str, Any]:
        """`{"data.source": …, "model.heads": …}`"""
        return {f"{name}.{key}": value for name, values in self.sections().items() for key, value in values.items()}

    def to_toml(self) -> str:
        """The recipe as a file that `heedful train` reads."""
        # TOML has no null, and leaving a value out would bring back the preset's.
        sections = {
            name: {key: "none" if value is None else value for key, value in values.items()}
            for name, values in self.sections().items()
        }
        return tomli_w.dumps({**{key: getattr(self, key) for key in TOP}, **sections})


def shipped_recipes() -> dict[str, Path]:
    """Name → file of every recipe that comes with heedful, its other names included."""
    files = {path.stem: path for path in FOLDER.glob("*.toml")}
    return dict(sorted({**files, **{alias: files[name] for alias, name in ALIASES.items()}}.items()))


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
    except (UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8 text"
        raise HeedfulError(f"{path} is not valid TOML: {reason}") from error
    except ValueError as error:  # a TOMLDecodeError is one
        raise HeedfulError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    own_name = name if name in shipped else path.stem if path.stem != "recipe" else path.parent.name
    return resolve(raw, overrides, own_name)


def resolve(raw: Mapping[str, Any], overrides: Iterable[str] = (), name: str = "recipe") -> Recipe:
    """Check and layer a recipe's content and overrides."""
    job = _job_of(raw)
    written = _split_overrides(overrides)
    own_kind, kind, preset_name = _kind_and_preset(raw.get("model", {}), written["model"], job)
    preset = find_preset(preset_name)
    given = _values(raw, job, own_kind, from_json)
    asked = _values(written, job, kind, from_text)
    if kind != own_kind:  # what a recipe says of one kind of model mostly means nothing to another
        known = _known(job, kind)["model"]
        given["model"] = {key: value for key, value in given["model"].items() if key in known and key not in preset.model}

    def layer(section: str, of_preset: Mapping[str, Any]) -> dict[str, Any]:
        named = "preset" in written["model"]  # a preset of the command line beats the recipe
        below = [given[section], of_preset] if named else [of_preset, given[section]]
        return {**below[0], **below[1], **asked[section]}

    shape = {key: value for key, value in preset.model.items() if key not in job.fixed}
    model = {**layer("model", shape), "kind": kind, "preset": preset_name}
    if kind in PAIRED and "tie" not in model:
        joint = layer("tokenizer", {}).get("joint", TokenizerSettings.joint)
        model["tie"] = "all" if joint else "target"  # two vocabularies cannot share one matrix
    if model.setdefault("pretrained", ""):
        # What a recipe says of a fresh model does not count, but what it says beside its own `pretrained` does.
        model = _from_pretrained(model, (given["model"] if raw.get("model", {}).get("pretrained") else {}) | asked["model"])
    data = layer("data", {})
    if any(data.get(key) for key in FILES) and "generate" not in asked["data"]:
        data["generate"] = ""  # the user's own files take the place of the recipe's default
    training = {"metric": job.metrics[0], **layer("training", preset.training)}
    training["metric"] = training["metric"] or job.metrics[0]
    if "steps" in asked["training"] and "warmup" not in asked["training"]:  # a short training must reach its peak, too
        warmup = training.get("warmup", TrainingSettings.warmup)
        training["warmup"] = min(warmup, max(1, training["steps"] // 10))
    if training.get("optimizer") == "muon" and "optimizer" not in asked["training"] and _without_muon(training, kind):
        training["optimizer"] = "adam"
    recipe = Recipe(
        str(raw.get("name", name)),
        str(raw.get("about", "")),
        job.name,
        job.data(**data),
        TokenizerSettings(**layer("tokenizer", {})),
        model,
        TrainingSettings(**training),
        DecodingSettings(**layer("decoding", {})),
    )
    _check_together(recipe, job)
    return recipe


def model_settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe's model section as keyword arguments of the model's config."""
    return {key: value for key, value in recipe.model.items() if key not in ORIGIN}


def smallest_config(recipe: Recipe) -> Any:
    """The settings of the recipe's model for the smallest data there could be."""
    job = JOBS[recipe.task]
    smallest = {
        "source_vocab": 8, "target_vocab": 8, "vocab": 8, "classes": 0 if job.head == "pretraining" else 2, "head": job.head,
        "image_size": getattr(recipe.data, "size", None), "channels": getattr(recipe.data, "channels", None),
    }  # fmt: skip
    return config_class(recipe.model["kind"])(**{key: smallest[key] for key in job.fixed}, **model_settings(recipe))


def _job_of(raw: Mapping[str, Any]) -> Job:
    """The job a recipe names; its sections and other names are known ones."""
    for key, value in raw.items():
        if key in ORDER and not isinstance(value, dict):
            raise UsageError(f"[{key}] must be a section")
        if key not in (*ORDER, *TOP):
            raise UsageError(f"there is no section '{key}'{did_you_mean(key, (*ORDER, *TOP))}")
        if key in TOP and not isinstance(value, str):
            raise UsageError(f"{key} must be text, not {str(value)[:60]}")
    task = raw.get("task", "translation")
    if task not in TRAINABLE:
        raise UsageError(f"there is no task '{task}'{did_you_mean(task, TRAINABLE)}")
    return TRAINABLE[task]


def _split_overrides(overrides: Iterable[str]) -> dict[str, dict[str, str]]:
    """Section → setting → text of `section.key=value`."""
    written: dict[str, dict[str, str]] = {section: {} for section in ORDER}
    for override in overrides:
        full, equals, text = override.partition("=")
        section, dot, key = full.partition(".")
        if not equals or not dot:
            raise UsageError(f"'{override}' is not of the form section.key=value, such as training.steps=1000")
        if section not in written:
            raise UsageError(f"there is no section '{section}'{did_you_mean(section, written)}")
        written[section][key] = text
    return written


def _kind_and_preset(raw: Mapping[str, Any], asked: Mapping[str, str], job: Job) -> tuple[str, str, str]:
    """The kind of model the recipe describes, the kind that is wanted, and the preset."""
    for key in ORIGIN:
        from_json(f"model.{key}", str, raw.get(key, ""))
    own_kind = raw.get("kind") or find_preset(raw.get("preset", job.preset)).kind
    kind = asked.get("kind") or (find_preset(asked["preset"]).kind if asked.get("preset") else own_kind)
    for name in (own_kind, kind):
        if name not in job.kinds:
            raise UsageError(f"model.kind must be {' or '.join(job.kinds)} for {job.name}, not '{name}'")
    default = job.preset if find_preset(job.preset).kind == kind else next(p for p in PRESETS if PRESETS[p].kind == kind)
    preset_name = asked.get("preset") or (raw.get("preset", default) if kind == own_kind else default)
    if find_preset(preset_name).kind != kind:
        raise UsageError(f"preset '{preset_name}' is of the kind {find_preset(preset_name).kind}, not {kind}")
    return own_kind, kind, preset_name


def preset_training(overrides: Iterable[str], recipe: Recipe) -> dict[str, Any]:
    """What a preset named on the command line brings for training: people who ask for a shape may not expect it."""
    written = _split_overrides(overrides)
    preset: Preset = PRESETS[recipe.model["preset"]]
    if "preset" not in written["model"]:
        return {}
    return {f"training.{key}": value for key, value in preset.training.items() if key not in written["training"]}


def _known(job: Job, kind: str) -> dict[str, Mapping[str, Any]]:
    """Section → setting → type."""
    model = {key: hint for key, hint in hints(config_class(kind)).items() if key not in job.fixed} | ORIGIN
    rest = {section: hints(settings) for section, settings in {"data": job.data, **SECTIONS}.items()}
    return {"model": model, **rest}


def _values(raw: Mapping[str, Any], job: Job, kind: str, read: Any) -> dict[str, dict[str, Any]]:
    """Every value of every section, checked by its field; `read` is `from_json` or `from_text`."""
    known = _known(job, kind)
    found: dict[str, dict[str, Any]] = {}
    for section in ORDER:
        for key in raw.get(section, {}):
            if key not in known[section]:
                raise UsageError(f"there is no setting '{section}.{key}'{did_you_mean(key, known[section])}")
        found[section] = {
            key: read(f"{section}.{key}", known[section][key], value) for key, value in raw.get(section, {}).items()
        }
    return found


def _from_pretrained(model: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The model section of a recipe that goes on from a model directory, which decides the shape."""
    fixed = [key for key in asked if key not in (*KEPT, *ORIGIN)]
    if fixed:
        raise UsageError(f"model.{fixed[0]} cannot be changed: model.pretrained={model['pretrained']} decides it")
    return {key: value for key, value in model.items() if key in ORIGIN or (key in KEPT and key in asked)}


def _without_muon(training: Mapping[str, Any], kind: str) -> bool:
    """Whether Muon cannot be used: it needs the whole matrices of Transformer layers."""
    return bool(training.get("shard")) or kind == "recurrent"


def _check_together(recipe: Recipe, job: Job) -> None:
    """What depends on more than one setting, or on the job."""
    training, tokenizer, data, model = recipe.training, recipe.tokenizer, recipe.data, recipe.model
    kind = model["kind"]
    flat = recipe.flat()
    for key, allowed in {"training.metric": job.metrics, "data.generate": ("", job.generate)}.items():
        if flat[key] not in allowed:
            raise UsageError(f"{key} must be one of {', '.join(a for a in allowed if a)}, not '{flat[key]}'")
    if data.generate and any(flat.get(f"data.{key}") for key in FILES):
        raise UsageError(f"data.generate={data.generate} makes its own data; leave it out to use files")
    if training.r_drop and kind not in WRITERS:
        raise UsageError(f"training.r_drop is for models that write text ({', '.join(WRITERS)}), not for {kind}")
    if training.optimizer == "muon" and _without_muon(vars(training), kind):
        raise UsageError("training.optimizer=muon needs the whole matrices of layers: no training.shard, no recurrent model")
    if training.bpe_dropout and (kind not in PAIRED or tokenizer.kind != "bpe"):
        raise UsageError(
            "training.bpe_dropout undoes merges of BPE: it is for translation and summarization with tokenizer.kind=bpe"
        )
    if model.get("tie") == "all" and not tokenizer.joint:
        raise UsageError("model.tie=all needs one vocabulary for both languages; use tie=target or tokenizer.joint=true")
    for side in ("", "valid_", "test_"):
        if flat.get(f"data.{side}target") and not flat[f"data.{side}source"]:
            raise UsageError(f"data.{side}target is given without data.{side}source")
    if kind == "bert":  # room for the special tokens, a question and a passage
        from_json("data.max_length", Annotated[int, Interval(ge=8)], data.max_length)
        if data.max_length > model.get("max_positions", data.max_length):
            raise UsageError(f"data.max_length {data.max_length} is more than model.max_positions {model['max_positions']}")
    if not model["pretrained"]:
        smallest_config(recipe)  # checks every other setting of the model before any work is done
