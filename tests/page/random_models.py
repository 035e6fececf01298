"""Models of every kind with odd settings and random weights that 16 bits hold exactly, and their files for the browser."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful.models import build_model, kind_of
from heedful.models.bert import BertConfig
from heedful.models.gpt import GPTConfig
from heedful.models.recurrent import RecurrentConfig
from heedful.models.seq2seq import Seq2SeqConfig
from heedful.models.vit import ViTConfig
from heedful.models.weights import named_weights
from heedful.page.model_file import FORMAT, MAGIC, Numbers, drawn_constants

KINDS: Any = ["full", "full", "window", "longformer", "bigbird", "linformer", "reformer"]
CAUSAL: Any = [kind for kind in KINDS if kind != "linformer"]
ACTIVATIONS: Any = ["relu", "gelu", "gelu-tanh", "silu"]
POSITIONS: Any = ["sinusoidal", "learned", "linear-bias", "relative", "rotary", "none"]
LENGTH = 12  # tokens at most
SIDE = 6  # pixels


@dataclass
class Case:
    """A model with an input: ids of its sequences, or an image."""

    model: Any
    given: dict[str, Any]

    @property
    def kind(self) -> str:
        return kind_of(self.model.config)

    def tensors(self) -> list[Tensor]:
        """The input as the PyTorch model takes it."""
        if self.kind == "vit":
            return [torch.tensor(self.given["image"]).view(1, self.model.config.channels, SIDE, SIDE)]
        return [torch.tensor([ids]) for ids in self.given.values()]

    def logits(self) -> Tensor:
        """What PyTorch computes, (L, V), (1, classes), …; for a model without an output, its states."""
        with torch.no_grad():
            if self.kind in ("seq2seq", "recurrent", "gpt"):
                found: Tensor = self.model.project(self.model.states(*self.tensors()))
            else:
                answer = self.model(*self.tensors())
                found = answer[0] if isinstance(answer, tuple) else answer
        return found.reshape(-1, found.size(-1))


def random_case(rng: random.Random, kind: str) -> Case:
    """A model of a kind with random settings, and an input for it."""
    heads = rng.choice([1, 2, 3])
    width = heads * rng.choice([2, 4, 6])
    vocabulary = rng.randint(5, 30)
    shape: dict[str, Any] = {"layers": rng.randint(1, 3), "d_model": width}
    transformer: dict[str, Any] = {**shape, "heads": heads, "d_ff": rng.randint(1, 9), "activation": rng.choice(ACTIVATIONS)}
    tie = rng.choice(["all", "target", "none"])
    pair: dict[str, Any] = {"source_vocab": vocabulary, "target_vocab": vocabulary + 3 * (tie != "all"), "tie": tie}

    pattern: dict[str, Any] = {
        "window": rng.randint(1, 3), "global_tokens": rng.randint(0, 2), "attention_block": rng.randint(1, 3),
        "random_blocks": rng.randint(0, 2), "projected_length": rng.randint(2, 6), "hash_buckets": rng.choice([1, 2, 4]),
        "hash_rounds": rng.randint(1, 3), "hash_chunk": rng.randint(1, 4), "pattern_seed": rng.randint(1, 9),
    }  # fmt: skip
    if kind != "recurrent":
        transformer |= pattern | {"attention_kind": rng.choice(CAUSAL if kind == "gpt" else KINDS)}

    def ids(count: int) -> list[int]:
        return [rng.randrange(vocabulary) for _ in range(rng.randint(1, count))]

    def one_of(*choices: Any) -> Any:
        return rng.choice(choices)

    config: Any
    if kind == "seq2seq":
        reads = one_of("last", "layerwise", "mix")
        depth = None if reads == "layerwise" else rng.choice([None, 1, 2])
        config = Seq2SeqConfig(
            **pair, **transformer, decoder_layers=depth, reads=reads, d_k=rng.choice([None, 4, 6]), d_v=rng.choice([None, 3, 5]),
            norm=rng.choice(["pre", "post"]), positions=rng.choice(POSITIONS), max_positions=LENGTH, max_distance=2,
            scale_embedding=rng.random() < 0.5, decoder_attention_kind=rng.choice(CAUSAL),
        )  # fmt: skip
        given: dict[str, Any] = {"source": ids(LENGTH), "target": ids(LENGTH)}
    elif kind == "recurrent":
        attention = one_of("none", "dot", "scaled-dot", "bilinear", "additive")
        cell, both = one_of("gru", "lstm"), rng.random() < 0.5
        config = RecurrentConfig(**pair, **shape, cell=cell, attention=attention, bidirectional=both)
        given = {"source": ids(LENGTH), "target": ids(LENGTH)}
    elif kind == "gpt":
        config = GPTConfig(
            vocabulary, **transformer, context=LENGTH, norm=rng.choice(["pre", "post"]), positions=rng.choice(POSITIONS),
            max_distance=2, tie=rng.random() < 0.5,
        )  # fmt: skip
        given = {"input": ids(LENGTH)}
    elif kind == "bert":
        head = one_of("none", "pretraining", "sequence", "token")
        classes = 3 if head in ("sequence", "token") else 0
        pooling: Any = "cls" if head in ("pretraining", "token") else one_of("cls", "mean", "attention")
        config = BertConfig(
            vocabulary, **transformer, max_positions=LENGTH, epsilon=1e-5, head=head, classes=classes, pooling=pooling,
            positions=rng.choice(POSITIONS), max_distance=2, segments=rng.choice([1, 2]),
        )  # fmt: skip
        tokens = ids(LENGTH)
        given = {"input": tokens, "segments": [rng.randrange(2) for _ in tokens]}
    else:
        channels, pooling = rng.choice([1, 3]), one_of("cls", "mean", "attention")
        config = ViTConfig(
            3, image_size=SIDE, channels=channels, patch=rng.choice([1, 2, 3]), **transformer, epsilon=1e-5, pooling=pooling
        )
        given = {"image": [rng.uniform(-1, 1) for _ in range(channels * SIDE**2)]}
    model = build_model(config).eval()
    fill_at_random(model)
    return Case(model, given)


def fill_at_random(model: nn.Module) -> None:
    """Weights of a size at which everything matters: attention is neither flat nor on one word."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_((torch.randn_like(weight) * (0.3 if weight.dim() > 1 else 0.5)).half().float())


def round_weights(model: nn.Module) -> None:
    """Round the weights of a model as its 16-bit file does, so that both compute with the same ones."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())


def network_file(model: Any, bits: Any = 16) -> bytes:
    """A model file of a network alone, without a tokenizer."""
    numbers = Numbers(bits)
    entries = [numbers.tensor(name, constant, exact=True) for name, constant in drawn_constants(model).items()]
    entries += [numbers.tensor(name, weight) for name, weight in named_weights(model).items()]
    config = dataclasses.asdict(model.config)
    header = {
        "name": "random", "job": "", "kind": kind_of(model.config), "verbs": [], "about": "", "parameters": 0, "bits": bits,
        "config": config, "settings": {}, "labels": [], "tokenizers": {}, "samples": [], "weights": entries, "checkpoints": [],
    }  # fmt: skip
    text = json.dumps(header).encode()
    head = MAGIC + struct.pack("<II", FORMAT, len(text)) + text
    return b"".join([head, bytes(-len(head) % 8), *numbers.parts])
