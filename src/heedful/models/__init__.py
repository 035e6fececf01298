"""Whole models, thinly assembled from `nn/`, and their named sizes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Kind → module, config, model. Imported when asked for, so that a translator never waits for the others.
KINDS = {
    "seq2seq": ("heedful.models.seq2seq", "Seq2SeqConfig", "Seq2Seq"),
    "recurrent": ("heedful.models.recurrent", "RecurrentConfig", "Recurrent"),
    "gpt": ("heedful.models.gpt", "GPTConfig", "GPT"),
    "bert": ("heedful.models.bert", "BertConfig", "Bert"),
    "vit": ("heedful.models.vit", "ViTConfig", "ViT"),
}


def config_class(kind: str) -> Any:
    """The settings of a kind of model, a frozen dataclass."""
    module, config, _ = KINDS[kind]
    return getattr(import_module(module), config)


def build_model(config: Any) -> Any:
    """A model with fresh weights from its settings."""
    module, _, model = KINDS[kind_of(config)]
    return getattr(import_module(module), model)(config)


def kind_of(config: Any) -> str:
    """Which kind of model these settings describe."""
    return next(kind for kind, (_, name, _) in KINDS.items() if name == type(config).__name__)
