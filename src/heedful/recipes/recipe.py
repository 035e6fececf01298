"""A recipe: one TOML file describes a whole job; any value can be overridden as `section.key=value`.

Values are layered: the defaults of the settings, then the recipe's preset, then the recipe, then (when it is named on the
command line) another preset, then the other overrides.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tomli_w

from heedful.errors import HeedfulError, UsageError, did_you_mean
from heedful.jobs.data_settings import PairSettings
from heedful.jobs.registry import FILES, JOBS, PAIRED, TRAINABLE, DataSettings, Job
from heedful.models import config_class
from heedful.models.bert import BertConfig
from heedful.models.presets import PRESETS, Preset, find_preset
from heedful.recipes.open_settings import is_half_a_shape, open_settings
from heedful.recipes.settings import DecodingSettings, TokenizerSettings, TrainingSettings, muon_is_possible
from heedful.runtime.files import os_error_sentence
from heedful.settings import Hint, Json, Values, from_json, from_text, hints

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

T = TypeVar("T")

FOLDER = Path(__file__).parent
SECTIONS: dict[str, type] = {"tokenizer": TokenizerSettings, "training": TrainingSettings, "decoding": DecodingSettings}
ORDER = ("data", "tokenizer", "model", "training", "decoding")
TOP = ("name", "about", "task")
FIT = "fit"  # another top-level key: whether settings the recipe leaves out are chosen from the data
# Settings of the model section that say what the model starts from.
ORIGIN = {"kind": str, "preset": str, "pretrained": str}
# Settings that may be changed in a pre-trained model; its shape is fixed.
KEPT = ("dropout", "attention_dropout", "pooling")


@dataclass(frozen=True)
class Recipe:
    """A whole job with all of its values."""

    name: str
    about: str = ""
    task: str = "translation"
    data: Any = field(default_factory=PairSettings)  # one of DataSettings; which one depends on the task
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: Values = field(default_factory=dict)  # its settings, including those of its preset, and ORIGIN
    training: TrainingSettings = field(default_factory=TrainingSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    open: tuple[str, ...] = ()  # settings that are still to be chosen from the data

    def sections(self) -> dict[str, Values]:
        """Section → setting → value."""
        return {name: self.model if name == "model" else dataclasses.asdict(getattr(self, name)) for name in ORDER}

    def flat(self) -> Values:
        """`{"data.source": …, "model.heads": …}`"""
        return {f"{name}.{key}": value for name, values in self.sections().items() for key, value in values.items()}

    def to_toml(self) -> str:
        """The recipe as a file for `heedful train`, without the values that are still to be chosen."""
        # TOML has no null, and leaving a value out would bring back the preset's.
        sections = {
            name: {key: "none" if value is None else value for key, value in values.items() if f"{name}.{key}" not in self.open}
            for name, values in self.sections().items()
        }
        fit = {FIT: True} if self.open else {}
        return tomli_w.dumps({**{key: getattr(self, key) for key in TOP}, **fit, **sections})


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
    except (UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8 text"
        raise HeedfulError(f"{path} is not valid TOML: {reason}") from error
    except ValueError as error:  # a TOMLDecodeError is one
        raise HeedfulError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise HeedfulError(os_error_sentence(error)) from error
    own_name = name if name in shipped else path.stem if path.stem != "recipe" else path.parent.name
    return resolve(raw, overrides, own_name)


def resolve(raw: Mapping[str, Json], overrides: Iterable[str] = (), name: str = "recipe") -> Recipe:
    """Check and layer a recipe's content and overrides."""
    job, sections = _job_and_sections(raw)
    written = _split_overrides(overrides)
    own_kind, kind, preset_name = _kind_and_preset(sections["model"], written["model"], job)
    preset = find_preset(preset_name)
    layers = Layers(_values(sections, job, own_kind, from_json), _values(written, job, kind, from_text))
    given = {section: {**layers.recipe[section], **layers.command[section]} for section in ORDER}
    named = preset if "preset" in written["model"] else None
    left_open = open_settings(given, kind, named) if raw.get(FIT) else ()
    if kind != own_kind:  # most of a recipe's settings for one kind of model do not exist in another
        known = _known(job, kind)["model"]
        own = layers.recipe["model"].items()
        layers.recipe["model"] = {key: value for key, value in own if key in known and key not in preset.model}
    recipe = Recipe(
        str(raw.get("name", name)),
        str(raw.get("about", "")),
        job.name,
        _data(layers, job),
        TokenizerSettings(**layers.values("tokenizer")),
        _model(layers, job, kind, preset_name),
        _training(layers, job, kind, preset),
        DecodingSettings(**layers.values("decoding")),
        left_open,
    )
    job.check_data(recipe.data)
    job.check_metric(recipe.training.metric)
    recipe.training.check_model(kind, recipe.tokenizer)
    recipe.tokenizer.check_tie(recipe.model.get("tie"))
    _check_vocabulary(recipe, layers.command["tokenizer"])
    if not recipe.model["pretrained"] and not is_half_a_shape(left_open, given["model"]):
        config = smallest_config(recipe)  # checks every other setting of the model before any work is done
        if isinstance(config, BertConfig):
            config.check_length(recipe.data.max_length, "data.max_length")
    return recipe


def _check_vocabulary(recipe: Recipe, asked: Values) -> None:
    """Raise an error if the recipe asks for a vocabulary other than the pre-trained model's, or there is none to extend."""
    start, translates = recipe.model["pretrained"], recipe.model["kind"] in PAIRED
    fixed = [key for key in asked if key not in ("extend", "sample")]
    if start and fixed:
        remedy = "leave it out" + ("; tokenizer.extend=2000 adds up to 2,000 tokens for the new text" if translates else "")
        raise UsageError(f"tokenizer.{fixed[0]} cannot be chosen: model.pretrained={start} brings its vocabulary; {remedy}")
    if recipe.tokenizer.extend and not (start and translates):
        raise UsageError(
            "tokenizer.extend adds tokens to the vocabulary of a pretrained translation model; give model.pretrained=DIRECTORY, "
            "or tokenizer.size for a new vocabulary"
        )


@dataclass(frozen=True)
class Layers:
    """The values that a recipe and the command line set: section → setting → value."""

    recipe: dict[str, Values]
    command: dict[str, Values]

    def values(self, section: str, preset: Values | None = None) -> Values:
        """One section. A preset that is named on the command line beats the recipe; any other lies below it."""
        below = [preset or {}, self.recipe[section]]
        if "preset" in self.command["model"]:
            below.reverse()
        return {**below[0], **below[1], **self.command[section]}


def _data(layers: Layers, job: Job) -> DataSettings:
    data = layers.values("data")
    if any(data.get(key) for key in FILES) and "generate" not in layers.command["data"]:
        data["generate"] = ""  # the user's own files replace the recipe's default
    return job.data(**data)


def _model(layers: Layers, job: Job, kind: str, preset_name: str) -> Values:
    shape = {key: value for key, value in find_preset(preset_name).model.items() if key not in job.fixed}
    model = {**layers.values("model", shape), "kind": kind, "preset": preset_name}
    if kind in PAIRED and "tie" not in model:
        joint = layers.values("tokenizer").get("joint", TokenizerSettings.joint)
        model["tie"] = "all" if joint else "target"  # two vocabularies cannot share one matrix
    if not model.setdefault("pretrained", ""):
        return model
    # A pre-trained model decides the shape: the recipe's settings for a fresh model are ignored, unless the recipe itself
    # names the pre-trained model.
    chosen = {**(layers.recipe["model"] if layers.recipe["model"].get("pretrained") else {}), **layers.command["model"]}
    fixed = [key for key in chosen if key not in (*KEPT, *ORIGIN)]
    if fixed:
        raise UsageError(f"model.{fixed[0]} cannot be changed: model.pretrained={model['pretrained']} decides it")
    return {key: value for key, value in model.items() if key in ORIGIN or (key in KEPT and key in chosen)}


def _training(layers: Layers, job: Job, kind: str, preset: Preset) -> TrainingSettings:
    values, asked = layers.values("training", preset.training), layers.command["training"]
    settings = TrainingSettings(**{**values, "metric": values.get("metric") or job.metrics[0]})
    if "steps" in asked and "warmup" not in asked:  # short training must reach the peak learning rate, too
        settings = replace(settings, warmup=min(settings.warmup, max(1, settings.steps // 10)))
    if settings.optimizer == "muon" and "optimizer" not in asked and not muon_is_possible(kind):
        settings = replace(settings, optimizer="adam")
    return settings


def model_settings(recipe: Recipe) -> Values:
    """The recipe's model section as keyword arguments of the model's config."""
    return {key: value for key, value in recipe.model.items() if key not in ORIGIN}


def smallest_config(recipe: Recipe) -> ModelConfig:
    """The config of the recipe's model for the smallest possible data."""
    job = JOBS[recipe.task]
    smallest = {
        "source_vocab": 8, "target_vocab": 8, "vocab": 8, "classes": 0 if job.head == "pretraining" else 2, "head": job.head,
        "image_size": getattr(recipe.data, "size", None), "channels": getattr(recipe.data, "channels", None),
    }  # fmt: skip
    config: ModelConfig = config_class(recipe.model["kind"])(
        **{key: smallest[key] for key in job.fixed}, **model_settings(recipe)
    )
    return config


def _job_and_sections(raw: Mapping[str, Json]) -> tuple[Job, dict[str, Mapping[str, Json]]]:
    """The job a recipe names and its sections; an error for a name that no recipe has."""
    sections: dict[str, Mapping[str, Json]] = {section: {} for section in ORDER}
    for key, value in raw.items():
        if key in ORDER:
            if not isinstance(value, dict):
                raise UsageError(f"[{key}] must be a section")
            sections[key] = value
        elif key == FIT:
            from_json(key, bool, value)
        elif key not in TOP:
            raise UsageError(f"there is no section '{key}'{did_you_mean(key, (*ORDER, *TOP, FIT))}")
        elif not isinstance(value, str):
            raise UsageError(f"{key} must be text, not {str(value)[:60]}")
    task = str(raw.get("task", Recipe.task))
    if task not in TRAINABLE:
        raise UsageError(f"there is no task '{task}'{did_you_mean(task, TRAINABLE)}")
    job = TRAINABLE[task]
    if raw.get(FIT) and not job.fits:
        able = " and ".join(one.name for one in TRAINABLE.values() if one.fits)
        raise UsageError(f"{FIT} = true is for {able}; a recipe for {task} gives every value")
    return job, sections


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


def _kind_and_preset(raw: Mapping[str, Json], asked: Mapping[str, str], job: Job) -> tuple[str, str, str]:
    """The kind of model the recipe describes, the kind that is wanted, and the preset."""
    own: dict[str, str] = {key: from_json(f"model.{key}", str, raw[key]) for key in ORIGIN if key in raw}
    own_kind = own.get("kind") or find_preset(own.get("preset", job.preset)).kind
    kind = asked.get("kind") or (find_preset(asked["preset"]).kind if asked.get("preset") else own_kind)
    for name in (own_kind, kind):
        if name not in job.kinds:
            raise UsageError(f"model.kind must be {' or '.join(job.kinds)} for {job.name}, not '{name}'")
    default = job.preset if find_preset(job.preset).kind == kind else next(p for p in PRESETS if PRESETS[p].kind == kind)
    preset_name = asked.get("preset") or (own.get("preset", default) if kind == own_kind else default)
    if find_preset(preset_name).kind != kind:
        raise UsageError(f"preset '{preset_name}' is of the kind {find_preset(preset_name).kind}, not {kind}")
    return own_kind, kind, preset_name


def preset_training(overrides: Iterable[str], recipe: Recipe) -> Values:
    """The training settings that a preset named on the command line brings, which somebody who wants its shape may not expect."""
    written = _split_overrides(overrides)
    preset: Preset = PRESETS[recipe.model["preset"]]
    if "preset" not in written["model"]:
        return {}
    return {f"training.{key}": value for key, value in preset.training.items() if key not in written["training"]}


def _known(job: Job, kind: str) -> dict[str, Mapping[str, Hint]]:
    """Section → setting → type."""
    model = {key: hint for key, hint in hints(config_class(kind)).items() if key not in job.fixed} | ORIGIN
    rest = {section: hints(settings) for section, settings in {"data": job.data, **SECTIONS}.items()}
    return {"model": model, **rest}


def _values(raw: Mapping[str, Mapping[str, T]], job: Job, kind: str, read: Callable[[str, Hint, T], Any]) -> dict[str, Values]:
    """Every value of every section, checked by its field; `read` is `from_json` or `from_text`."""
    known = _known(job, kind)
    found: dict[str, Values] = {}
    for section in ORDER:
        for key in raw[section]:
            if key not in known[section]:
                raise UsageError(f"there is no setting '{section}.{key}'{did_you_mean(key, known[section])}")
        found[section] = {key: read(f"{section}.{key}", known[section][key], value) for key, value in raw[section].items()}
    return found
