"""BigBird: bare, or with a head for pre-training, sequence classification or token classification."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.interop.bert import (
    NEXT,
    encoder_map,
    encoder_settings,
    known_architecture,
    of_embedding_and_pooling,
    their_settings,
    with_table,
)
from heedful.interop.foreign_config import ForeignConfig
from heedful.interop.known_settings import Obstacle, obstacle, only
from heedful.interop.weight_map import MappedWeight, export_weights, import_weights, linear
from heedful.models.bert import BertConfig, Head
from heedful.settings import Json, Values

# Their class → our head, our task, and the prefix of the classifier's tensors. Their head for question answering has a
# feed-forward network of its own, which ours lacks.
ARCHITECTURES: dict[str, tuple[Head, str, str]] = {
    "BigBirdModel": ("none", "embedding", ""),
    "BigBirdForPreTraining": ("pretraining", "bert-pretraining", ""),
    "BigBirdForMaskedLM": ("pretraining", "bert-pretraining", ""),
    "BigBirdForSequenceClassification": ("sequence", "classification", "classifier.out_proj"),
    "BigBirdForTokenClassification": ("token", "tagging", "classifier"),
}
PREFIX = "bert."
USUAL_ACTIVATION = "gelu_new"


def weight_map(config: BertConfig, architecture: str, prefix: str) -> list[MappedWeight]:
    """Every weight of the encoder and of its head."""
    head = "cls.predictions"
    found = encoder_map(config, prefix, f"{head}.decoder.weight")
    if config.head == "sequence":
        found += linear("pooler", "classifier.dense")
    elif config.pooling == "cls" and config.head != "token":
        found += linear("pooler", f"{prefix}pooler")
    if config.head == "pretraining":
        found += linear("masked_language.dense", f"{head}.transform.dense")
        found += linear("masked_language.norm", f"{head}.transform.LayerNorm")
        found.append(MappedWeight("masked_language.bias", (f"{head}.bias",), copies=(f"{head}.decoder.bias",)))
        if architecture != "BigBirdForMaskedLM":
            found += linear("next_sentence", NEXT)
    classifier = ARCHITECTURES[architecture][2]
    return found + (linear("classifier", classifier) if classifier else [])


def to_heedful(foreign: ForeignConfig, tensors: Mapping[str, Tensor], origin: str) -> tuple[BertConfig, dict[str, Tensor]]:
    """A BigBird's configuration and tensors → ours."""
    architecture = known_architecture(foreign, "BigBirdModel", ARCHITECTURES)
    head, _, classifier = ARCHITECTURES[architecture]
    foreign.require(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute", use_bias=True)
    foreign.require(rescale_embeddings=False)
    if head == "sequence":
        foreign.require(problem_type="single_label_classification")
    tensors = {name: tensor for name, tensor in tensors.items() if "embeddings.position_ids" not in name}
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""  # the bare model's tensors have no prefix
    if head in ("sequence", "token"):  # it has a pooler that nothing reads
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"{prefix}pooler.")}
    config = BertConfig(
        **encoder_settings(foreign, USUAL_ACTIVATION),
        max_positions=foreign.integer("max_position_embeddings", 4096),
        segments=foreign.integer("type_vocab_size", 2),
        head=head,
        classes=len(foreign.labels()) if classifier else 0,
        pooling="cls" if head != "none" or f"{prefix}pooler.weight" in tensors else "mean",
        pooler_activation="feed-forward" if head == "sequence" else "tanh",
        **attention_of(foreign),
    )
    weights = import_weights(weight_map(config, architecture, prefix), config, tensors, origin)
    if architecture == "BigBirdForMaskedLM":
        weights |= {"next_sentence.weight": torch.zeros(2, config.d_model), "next_sentence.bias": torch.zeros(2)}
    return config, weights


def attention_of(foreign: ForeignConfig) -> Values:
    """Our settings of attention: block-sparse, or full."""
    kind = foreign.word("attention_type", "block_sparse")
    if kind == "original_full":
        return {"attention_kind": "full"}
    if kind != "block_sparse":
        raise HeedfulError(f"{foreign.origin} has attention_type = '{kind}', which is neither block_sparse nor original_full")
    block = foreign.integer("block_size", 64)
    return {
        "attention_kind": "bigbird",
        "attention_block": block,
        "window": block,
        "random_blocks": foreign.integer("num_random_blocks", 3, least=0),
        "published_bigbird": True,
    }


def obstacles(config: BertConfig, task: str) -> list[Obstacle]:
    """The settings that a BigBird in transformers cannot express."""
    found = [*only(config, attention_kind="bigbird", published_bigbird=True), *of_embedding_and_pooling(config)]
    if config.window > config.attention_block:
        found.append(obstacle(config, "window", config.attention_block, "at most one attention_block on each side"))
    if config.head != "token":
        found += only(config, pooler_activation="feed-forward" if config.head == "sequence" else "tanh")
    if task not in [known for head, known, _ in ARCHITECTURES.values() if head == config.head]:
        found.append(Obstacle(f"a head for {task}, which has further layers there"))
    return found


def to_huggingface(config: BertConfig, weights: Mapping[str, Tensor], task: str) -> tuple[dict[str, Json], dict[str, Tensor]]:
    """Our configuration and weights → a BigBird config.json, without the names of the classes, and its tensors."""
    weights = with_table(config, weights)
    architecture = next(name for name, (head, known, _) in ARCHITECTURES.items() if (head, known) == (config.head, task))
    if config.head == "pretraining" and not weights["next_sentence.weight"].any():
        architecture = "BigBirdForMaskedLM"
    values: dict[str, Json] = {
        "model_type": "big_bird",
        "architectures": [architecture],
        **their_settings(config),
        "max_position_embeddings": config.max_positions,
        "attention_type": "block_sparse",
        "block_size": config.attention_block,
        "num_random_blocks": config.random_blocks,
    }
    prefix = "" if config.head == "none" else PREFIX
    return values, export_weights(weight_map(config, architecture, prefix), weights)
