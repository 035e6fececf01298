"""BERT: bare, or with a head for pre-training, sequence classification, token classification or question answering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from heedful.errors import HeedfulError, did_you_mean
from heedful.interop.foreign_config import ForeignConfig, their_activation
from heedful.interop.known_settings import Obstacle, obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.bert import BertConfig, Head
from heedful.nn.positions import SinusoidalPositions
from heedful.settings import Json, Values

# Their class → our head, our task, and the prefix of the classifier's tensors.
ARCHITECTURES: dict[str, tuple[Head, str, str]] = {
    "BertModel": ("none", "embedding", ""),
    "BertForPreTraining": ("pretraining", "bert-pretraining", ""),
    "BertForMaskedLM": ("pretraining", "bert-pretraining", ""),
    "BertForSequenceClassification": ("sequence", "classification", "classifier"),
    "BertForTokenClassification": ("token", "tagging", "classifier"),
    "BertForQuestionAnswering": ("token", "question-answering", "qa_outputs"),
}
PREFIX = "bert."
TABLES = ("learned", "sinusoidal", "none")  # positions that a table can hold
POOLER, NEXT = "pooler.dense", "cls.seq_relationship"
# Parts of our pre-training model that theirs may lack: BertForMaskedLM has neither a pooler nor next-sentence prediction. On
# import they are set to zero, and on export a part that is all zeros is left out; training never leaves a part all zeros.
OPTIONAL = {"pooler": POOLER, "next_sentence": NEXT}


def encoder_map(config: BertConfig, prefix: str, output: str, skip: int = 0) -> list[MappedWeight]:
    """The weights of the embedding and of the layers, which several families share.

    `output` names the output matrix of masked language modelling, and `skip` is the number of unused positions at the
    beginning of their table.
    """
    words = f"{prefix}embeddings.word_embeddings.weight"
    found = [
        MappedWeight("embedding.weight", (words,), copies=(output,) if config.head == "pretraining" else ()),
        MappedWeight("embedding.positions.table", (f"{prefix}embeddings.position_embeddings.weight",), skip=skip),
        MappedWeight("embedding.segments", (f"{prefix}embeddings.token_type_embeddings.weight",)),
        *linear("embedding.norm", f"{prefix}embeddings.LayerNorm"),
    ]
    for number in range(config.layers):
        ours, theirs = f"encoder.layers.{number}", f"{prefix}encoder.layer.{number}"
        parts = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        found += linear(f"{ours}.self_attention.project_in", *parts)
        found += linear(f"{ours}.self_attention.project_out", f"{theirs}.attention.output.dense")
        found += linear(f"{ours}.around_self.norm", f"{theirs}.attention.output.LayerNorm")
        found += linear(f"{ours}.feed_forward.project_in", f"{theirs}.intermediate.dense")
        found += linear(f"{ours}.feed_forward.project_out", f"{theirs}.output.dense")
        found += linear(f"{ours}.around_feed.norm", f"{theirs}.output.LayerNorm")
    return found


def weight_map(config: BertConfig, classifier: str, prefix: str = PREFIX) -> list[MappedWeight]:
    """Every weight of the encoder and of its head."""
    head = "cls.predictions"
    found = encoder_map(config, prefix, f"{head}.decoder.weight")
    if config.pooling == "cls" and config.head != "token":
        found += linear("pooler", f"{prefix}{POOLER}")
    if config.head == "pretraining":
        found += linear("masked_language.dense", f"{head}.transform.dense")
        found += linear("masked_language.norm", f"{head}.transform.LayerNorm")
        found.append(MappedWeight("masked_language.bias", (f"{head}.bias",), copies=(f"{head}.decoder.bias",)))
        found += linear("next_sentence", NEXT)
    if classifier:
        found += linear("classifier", classifier)
    return found


def without(mapping: list[MappedWeight], parts: list[str]) -> list[MappedWeight]:
    """The mapping without these parts of our model."""
    return [mapped for mapped in mapping if mapped.ours.split(".")[0] not in parts]


def find_architecture(foreign: ForeignConfig) -> str:
    """The name of the model's class in transformers."""
    return known_architecture(foreign, "BertModel", ARCHITECTURES)


def known_architecture(foreign: ForeignConfig, usual: str, known: Iterable[str]) -> str:
    """The name of the model's class in transformers, which must be one of `known`."""
    name = foreign.architecture(usual)
    if name not in known:
        raise HeedfulError(f"{foreign.origin} describes a {name}, which heedful does not read{did_you_mean(name, known)}")
    return name


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[BertConfig, dict[str, Tensor]]:
    """A BERT's configuration and tensors → ours. We use the layers' dropout before a classifier, too."""
    architecture = find_architecture(foreign)
    head, _, classifier = ARCHITECTURES[architecture]
    foreign.require(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    if architecture == "BertForSequenceClassification":
        foreign.require(problem_type="single_label_classification")
    tensors = {modern(name): tensor for name, tensor in tensors.items() if not name.endswith("embeddings.position_ids")}
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""  # the bare model's tensors have no prefix
    has_pooler = f"{prefix}{POOLER}.weight" in tensors
    config = BertConfig(
        **encoder_settings(foreign),
        max_positions=foreign.integer("max_position_embeddings"),
        segments=foreign.integer("type_vocab_size", 2),
        head=head,
        classes=len(foreign.labels()) if classifier else 0,
        pooling="cls" if head != "none" or has_pooler else "mean",
    )
    if architecture == "BertForQuestionAnswering" and config.classes != 2:
        raise HeedfulError(
            f"{foreign.origin} has {config.classes} labels; question answering needs 2, the start and the end of a span"
        )
    absent = []
    if architecture == "BertForMaskedLM":
        absent += [] if has_pooler else ["pooler"]
        absent += [] if f"{NEXT}.weight" in tensors else ["next_sentence"]
    weights = import_weights(without(weight_map(config, classifier, prefix), absent), config, tensors, origin)
    for part in absent:
        rows = config.d_model if part == "pooler" else 2
        weights |= {f"{part}.weight": torch.zeros(rows, config.d_model), f"{part}.bias": torch.zeros(rows)}
    return config, weights


def encoder_settings(foreign: ForeignConfig, activation: str = "gelu") -> Values:
    """The settings of our encoder that several families have under the same names."""
    return {
        "vocab": foreign.integer("vocab_size"),
        "layers": foreign.integer("num_hidden_layers"),
        "d_model": foreign.integer("hidden_size"),
        "d_ff": foreign.integer("intermediate_size"),
        "heads": foreign.integer("num_attention_heads"),
        "dropout": foreign.number("hidden_dropout_prob", 0.1),
        "attention_dropout": foreign.number("attention_probs_dropout_prob", 0.1),
        "activation": foreign.activation("hidden_act", activation),
        "epsilon": foreign.number("layer_norm_eps", 1e-12),
    }


def their_settings(config: BertConfig) -> dict[str, Json]:
    """The values of a config.json that several families have under the same names."""
    return {
        "vocab_size": config.vocab,
        "num_hidden_layers": config.layers,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_attention_heads": config.heads,
        "type_vocab_size": config.segments,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "hidden_act": their_activation(config.activation),
        "layer_norm_eps": config.epsilon,
        "tie_word_embeddings": True,
    }


def obstacles(config: BertConfig) -> list[Obstacle]:
    """The settings that a BERT in transformers cannot express."""
    return [*of_embedding_and_pooling(config), *only(config, attention_kind="full", pooler_activation="tanh")]


def of_embedding_and_pooling(config: BertConfig) -> list[Obstacle]:
    """Settings that no encoder of these families can express: positions outside a table, a head that reads another vector."""
    found = []
    if config.positions not in TABLES:
        found.append(obstacle(config, "positions", "learned", f"only {', '.join(TABLES)}"))
    if config.head not in ("none", "token"):
        found += only(config, pooling="cls")
    elif config.pooling == "attention":
        found += only(config, pooling="mean")
    return found


def with_table(config: BertConfig, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights with the position table that theirs always has: sinusoids, or zeros if our model adds no positions."""
    if config.positions == "learned":
        return weights
    waves = SinusoidalPositions(config.d_model).compute(0, config.max_positions)
    return {**weights, "embedding.positions.table": waves if config.positions == "sinusoidal" else torch.zeros_like(waves)}


def to_huggingface(config: BertConfig, weights: Mapping[str, Tensor], task: str) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a BERT config.json, without the names of the classes, and its tensors."""
    weights = with_table(config, weights)
    absent = [part for part in OPTIONAL if config.head == "pretraining" and not weights[f"{part}.weight"].any()]
    architecture = next(name for name, (head, known, _) in ARCHITECTURES.items() if (head, known) == (config.head, task))
    if "next_sentence" in absent:
        architecture = "BertForMaskedLM"
    values: dict[str, Json] = {
        "model_type": "bert",
        "architectures": [architecture],
        **their_settings(config),
        "max_position_embeddings": config.max_positions,
    }
    prefix = "" if config.head == "none" else PREFIX
    return values, export_weights(without(weight_map(config, ARCHITECTURES[architecture][2], prefix), absent), weights)


def modern(name: str) -> str:
    """The current name of a tensor: the original BERT calls a LayerNorm's weight and bias gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
