"""The kinds of model by name, and how to build a model from its settings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, overload

if TYPE_CHECKING:
    from heedful.models.bert import Bert, BertConfig
    from heedful.models.gpt import GPT, GPTConfig
    from heedful.models.recurrent import Recurrent, RecurrentConfig
    from heedful.models.seq2seq import Seq2Seq, Seq2SeqConfig
    from heedful.models.vit import ViT, ViTConfig

    ModelConfig = Seq2SeqConfig | RecurrentConfig | GPTConfig | BertConfig | ViTConfig
    AnyModel = Seq2Seq | Recurrent | GPT | Bert | ViT


class ModelKind(NamedTuple):
    """Where a kind of model is defined. It is imported on first use, so that a translator does not load the other models."""

    module: str
    config: str
    model: str


MODEL_KINDS = {
    "seq2seq": ModelKind("heedful.models.seq2seq", "Seq2SeqConfig", "Seq2Seq"),
    "recurrent": ModelKind("heedful.models.recurrent", "RecurrentConfig", "Recurrent"),
    "gpt": ModelKind("heedful.models.gpt", "GPTConfig", "GPT"),
    "bert": ModelKind("heedful.models.bert", "BertConfig", "Bert"),
    "vit": ModelKind("heedful.models.vit", "ViTConfig", "ViT"),
}


def config_class(kind: str) -> type[Any]:
    """The settings class of a kind of model, a frozen dataclass; which fields it has depends on the kind."""
    found = MODEL_KINDS[kind]
    config: type[Any] = getattr(import_module(found.module), found.config)
    return config


def kind_of(config: ModelConfig) -> str:
    """The kind of model that these settings describe."""
    return next(kind for kind, found in MODEL_KINDS.items() if found.config == type(config).__name__)


@overload
def build_model(config: Seq2SeqConfig) -> Seq2Seq: ...
@overload
def build_model(config: RecurrentConfig) -> Recurrent: ...
@overload
def build_model(config: GPTConfig) -> GPT: ...
@overload
def build_model(config: BertConfig) -> Bert: ...
@overload
def build_model(config: ViTConfig) -> ViT: ...
def build_model(config: ModelConfig) -> AnyModel:
    """A model with fresh weights from its settings."""
    found = MODEL_KINDS[kind_of(config)]
    model: AnyModel = getattr(import_module(found.module), found.model)(config)
    return model
