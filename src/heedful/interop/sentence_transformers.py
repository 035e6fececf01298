"""Directories of sentence-transformers: a BERT, and how its hidden states are pooled into one embedding."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import normalizers

from heedful.errors import HeedfulError
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.foreign_tokenizers import read_object
from heedful.runtime.files import write_text
from heedful.settings import Json, Values
from heedful.text import Tokenizer

MODULES = ("Transformer", "Pooling", "Normalize")


def is_sentence_encoder(folder: Path) -> bool:
    """Whether a directory is a sentence-transformers model."""
    return (folder / "modules.json").is_file()


def read_pooling(folder: Path) -> Values:
    """Our settings of a sentence encoder: `pooling` and `normalize`, and `max_length` if the directory specifies it."""
    path = folder / "modules.json"
    try:
        steps = [(str(step["type"]).rpartition(".")[2], str(step["path"])) for step in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise HeedfulError(f"{path} is not a list of modules: {error}") from error
    names = tuple(name for name, _ in steps)
    if names not in (MODULES, MODULES[:2]) or steps[0][1]:
        raise HeedfulError(f"{path} lists {', '.join(names)}; heedful reads {', '.join(MODULES)}, the first in the folder itself")
    place = folder / steps[1][1] / "config.json"
    if folder.resolve() not in place.resolve().parents:
        raise HeedfulError(f"{path} points outside its folder, to {place}")
    options = read_object(folder / "config_sentence_transformers.json", optional=True)
    ForeignConfig(options, str(folder / "config_sentence_transformers.json")).require(default_prompt_name=None, truncate_dim=None)
    settings: Values = {"pooling": pooling_mode(read_object(place), place), "normalize": len(names) == 3}
    given = ForeignConfig(
        read_object(folder / "sentence_bert_config.json", optional=True), str(folder / "sentence_bert_config.json")
    )
    if given.values.get("max_seq_length") is not None:
        settings["max_length"] = given.integer("max_seq_length", least=3)
    return settings


def pooling_mode(config: dict[str, Json], path: Path) -> str:
    """mean or cls; older files have one flag per mode."""
    old = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    on = [old.get(key, key) for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    mode = config.get("pooling_mode", on[0] if len(on) == 1 else on or "mean")
    if mode not in ("mean", "cls"):
        raise HeedfulError(f"{path} pools by {mode}; heedful pools sentences by mean or cls")
    return str(mode)


def lower_case(folder: Path, tokenizer: Tokenizer) -> None:
    """Add to the tokenizer the lower-casing that sentence-transformers may do before it."""
    if read_object(folder / "sentence_bert_config.json", optional=True).get("do_lower_case") is True:
        before = [tokenizer.backend.normalizer] if tokenizer.backend.normalizer is not None else []
        tokenizer.backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])


def write_pooling(folder: Path, width: int, pooling: str, normalize: bool, max_length: int) -> None:
    """Write the files that sentence-transformers needs in addition to the BERT."""
    paths = ("", "1_Pooling", "2_Normalize")
    steps: list[dict[str, Json]] = [
        {"idx": number, "name": str(number), "path": paths[number], "type": f"sentence_transformers.models.{name}"}
        for number, name in enumerate(MODULES[: 3 if normalize else 2])
    ]
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    files: dict[str, Json] = {
        "modules.json": steps,
        "1_Pooling/config.json": {"word_embedding_dimension": width, **modes},
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
    }
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, values in files.items():
        write_text(folder / name, json.dumps(values, indent=2) + "\n")
