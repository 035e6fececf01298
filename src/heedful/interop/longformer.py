"""Longformer: bare, or with a head for masked language modelling, sequence or token classification, or question answering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop.bert import (
    encoder_map,
    encoder_settings,
    known_architecture,
    of_embedding_and_pooling,
    their_settings,
    with_table,
)
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.known_settings import Obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.bert import BertConfig, Head
from heedful.settings import Json, Values

# Their class → our head, our task, and the prefix of the classifier's tensors.
ARCHITECTURES: dict[str, tuple[Head, str, str]] = {
    "LongformerModel": ("none", "embedding", ""),
    "LongformerForMaskedLM": ("pretraining", "bert-pretraining", ""),
    "LongformerForSequenceClassification": ("sequence", "classification", "classifier.out_proj"),
    "LongformerForTokenClassification": ("token", "tagging", "classifier"),
    "LongformerForQuestionAnswering": ("token", "question-answering", "qa_outputs"),
}
PREFIX = "longformer."
PARTS = ("query", "key", "value")
PAD = 1  # of the published vocabulary


def weight_map(config: BertConfig, architecture: str, prefix: str, pad: int) -> list[MappedWeight]:
    """Every weight. Their positions are counted from the padding id + 1."""
    found = encoder_map(config, prefix, "lm_head.decoder.weight", skip=pad + 1)
    for number in range(config.layers):
        parts = [f"{prefix}encoder.layer.{number}.attention.self.{part}_global" for part in PARTS]
        found += linear(f"encoder.layers.{number}.self_attention.project_global", *parts)
    if config.head == "pretraining":
        found += linear("masked_language.dense", "lm_head.dense")
        found += linear("masked_language.norm", "lm_head.layer_norm")
        found.append(MappedWeight("masked_language.bias", ("lm_head.bias",), copies=("lm_head.decoder.bias",)))
    if config.head == "none" and config.pooling == "cls":
        found += linear("pooler", f"{prefix}pooler.dense")
    if config.head == "sequence":
        found += linear("pooler", "classifier.dense")
    classifier = ARCHITECTURES[architecture][2]
    return found + (linear("classifier", classifier) if classifier else [])


def global_settings(architecture: str) -> Values:
    """Which tokens are global. Only two of their classes choose any; the others take them as an argument."""
    return {
        "global_tokens": 1 if architecture == "LongformerForSequenceClassification" else 0,
        "global_question": architecture == "LongformerForQuestionAnswering",
    }


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[BertConfig, dict[str, Tensor]]:
    """A Longformer's configuration and tensors → ours."""
    architecture = known_architecture(foreign, "LongformerModel", ARCHITECTURES)
    head, _, classifier = ARCHITECTURES[architecture]
    foreign.require(position_embedding_type="absolute", attention_mode="longformer")
    if head == "sequence":
        foreign.require(problem_type="single_label_classification")
    if head == "pretraining":
        foreign.require(hidden_act="gelu")
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith("embeddings.position_ids")}
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""  # the bare model's tensors have no prefix
    pad = foreign.integer("pad_token_id", PAD, least=0)
    longest = foreign.integer("max_position_embeddings") - pad - 1
    if longest < 1:
        raise HeedfulError(f"{foreign.origin} has no positions beyond those that come before the first token")
    config = BertConfig(
        **encoder_settings(foreign),
        max_positions=longest,
        segments=foreign.integer("type_vocab_size", 2),
        head=head,
        classes=len(foreign.labels()) if classifier else 0,
        pooling="cls" if head != "none" or f"{prefix}pooler.dense.weight" in tensors else "mean",
        attention_kind="longformer",
        window=window_of(foreign),
        global_projections=True,
        **global_settings(architecture),
    )
    if architecture == "LongformerForQuestionAnswering" and config.classes != 2:
        raise HeedfulError(
            f"{foreign.origin} has {config.classes} labels; question answering needs 2, the start and the end of a span"
        )
    weights = import_weights(weight_map(config, architecture, prefix, pad), config, tensors, origin)
    if head == "pretraining":  # they have no next-sentence prediction
        for part, rows in (("pooler", config.d_model), ("next_sentence", 2)):
            weights |= {f"{part}.weight": torch.zeros(rows, config.d_model), f"{part}.bias": torch.zeros(rows)}
    return config, weights


def window_of(foreign: ForeignConfig) -> int:
    """Our window, which is one side of theirs, from the one number or the one per layer that a config.json gives."""
    given = foreign.values.get("attention_window")
    each = set(given) if isinstance(given, Sequence) and not isinstance(given, str) else {512 if given is None else given}
    if len(each) != 1:
        raise HeedfulError(f"{foreign.origin} has attention_window = {given!r}: heedful has one window for all layers")
    (window,) = each
    if not isinstance(window, int) or isinstance(window, bool) or window < 2 or window % 2:
        raise HeedfulError(f"{foreign.origin} has attention_window = {given!r}, which is not an even number of at least 2")
    return window // 2


def obstacles(config: BertConfig, task: str) -> list[Obstacle]:
    """The settings that a Longformer in transformers cannot express."""
    found = [*only(config, attention_kind="longformer", pooler_activation="tanh"), *of_embedding_and_pooling(config)]
    if config.head == "pretraining":
        found += only(config, activation="gelu")
    # Question answering has global tokens in the question, classification at the beginning; in the other classes they are an
    # argument of each call.
    first = 1 if config.head == "sequence" else 0
    return found + only(config, global_tokens=first, global_question=task == "question-answering")


def to_huggingface(
    config: BertConfig, weights: Mapping[str, Tensor], task: str, pad: int, sep: int
) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a Longformer config.json, without the names of the classes, and its tensors."""
    weights = with_table(config, weights)
    architecture = next(name for name, (head, known, _) in ARCHITECTURES.items() if (head, known) == (config.head, task))
    if config.head == "pretraining" and any(weights[f"{part}.weight"].any() for part in ("pooler", "next_sentence")):
        raise HeedfulError("Longformer has no next-sentence prediction, which this model has learned; export a fine-tuned one")
    if not config.global_projections:  # theirs always has projections for global tokens: the same again
        own = {name: weight for name, weight in weights.items() if ".self_attention.project_in." in name}
        weights = {**weights, **{name.replace("project_in", "project_global"): weight.clone() for name, weight in own.items()}}
    values: dict[str, Json] = {
        "model_type": "longformer",
        "architectures": [architecture],
        **their_settings(config),
        "max_position_embeddings": config.max_positions + pad + 1,
        "attention_window": [2 * config.window] * config.layers,
        "pad_token_id": pad,
        "sep_token_id": sep,
    }
    prefix = "" if config.head == "none" else PREFIX
    return values, export_weights(weight_map(config, architecture, prefix, pad), weights)
