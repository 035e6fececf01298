"""Presets: models of named sizes. Every row of the paper's Table 3, `tiny`, and sizes of the other kinds of model.

A preset has every setting of a shape, so that naming one replaces the shape of a recipe. Model settings and training
settings are separate, because a row such as "label smoothing 0.2" is about training only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from heedful.errors import UsageError, did_you_mean
from heedful.settings import Json, Values


@dataclass(frozen=True)
class Preset:
    """A model of a named size: its settings, those of its training, and where it comes from."""

    about: str
    model: Values = field(default_factory=dict)
    training: Values = field(default_factory=dict)
    parameters: float | None = None  # in millions, as published and with the published vocabulary or classes
    kind: str = "seq2seq"  # of model, a key of `MODEL_KINDS`


SHAPE = {"layers": 6, "decoder_layers": None, "d_model": 512, "d_ff": 2048, "heads": 8, "d_k": None, "d_v": None}
TINY = {**SHAPE, "layers": 4, "d_model": 128, "d_ff": 256, "heads": 4}
PAPER_MODEL = {**SHAPE, "dropout": 0.1, "norm": "post", "positions": "sinusoidal"}
PAPER_TRAINING = {
    "steps": 100_000, "label_smoothing": 0.1, "schedule": "inverse-sqrt", "warmup": 4000, "learning_rate": 0.0, "average": 5
}  # fmt: skip


def _row(about: str, parameters: float | None = None, training: Values | None = None, **model: Json) -> Preset:
    """A row of Table 3: base, except for what is given."""
    return Preset(f"Table 3 {about}", {**PAPER_MODEL, **model}, {**PAPER_TRAINING, **(training or {})}, parameters)


def _tiny(about: str, training: Values | None = None, **model: Json) -> Preset:
    """A row of Table 3 at the scale of tiny: the same change, made to tiny instead of base. The recipe decides the rest."""
    return Preset(f"Table 3 {about}, at the scale of tiny", {**TINY, **model}, training or {})


def _gpt(about: str, parameters: float | None, layers: int, d_model: int, heads: int, **other: Json) -> Preset:
    shape = {"layers": layers, "d_model": d_model, "d_ff": 4 * d_model, "heads": heads}
    return Preset(about, {**shape, "context": 1024, "activation": "gelu-tanh", **other}, {}, parameters, "gpt")


def _bert(about: str, parameters: float, layers: int, d_model: int) -> Preset:
    """A BERT; `parameters` are with 30,522 tokens and the pooler, without a head."""
    shape = {"layers": layers, "d_model": d_model, "d_ff": 4 * d_model, "heads": d_model // 64, "max_positions": 512}
    return Preset(about, shape, {}, parameters, "bert")


def _vit(about: str, parameters: float, layers: int, d_model: int) -> Preset:
    """A ViT; `parameters` are with 1,000 classes."""
    shape = {"layers": layers, "d_model": d_model, "d_ff": 4 * d_model, "heads": d_model // 64}
    return Preset(about, {**shape, "image_size": 224, "channels": 3, "patch": 16}, {}, parameters, "vit")


DIGITS = {"layers": 4, "d_model": 64, "d_ff": 128, "heads": 4, "image_size": 8, "channels": 1, "patch": 2}
RECURRENT = {"cell": "gru", "attention": "additive", "layers": 1, "d_model": 256, "bidirectional": True, "dropout": 0.2}

PRESETS: dict[str, Preset] = {
    "base": _row("base", 65),
    "a-heads-1": _row("(A): 1 head of 512", heads=1, d_k=512, d_v=512),
    "a-heads-4": _row("(A): 4 heads of 128", heads=4, d_k=128, d_v=128),
    "a-heads-16": _row("(A): 16 heads of 32", heads=16, d_k=32, d_v=32),
    "a-heads-32": _row("(A): 32 heads of 16", heads=32, d_k=16, d_v=16),
    "b-dk-16": _row("(B): keys of 16", 58, d_k=16, d_v=64),
    "b-dk-32": _row("(B): keys of 32", 60, d_k=32, d_v=64),
    "c-layers-2": _row("(C): 2 layers", 36, layers=2),
    "c-layers-4": _row("(C): 4 layers", 50, layers=4),
    "c-layers-8": _row("(C): 8 layers", 80, layers=8),
    "c-width-256": _row("(C): 256 wide", 28, d_model=256, d_k=32, d_v=32),
    "c-width-1024": _row("(C): 1024 wide", 168, d_model=1024, d_k=128, d_v=128),
    "c-ff-1024": _row("(C): feed-forward 1024", 53, d_ff=1024),
    "c-ff-4096": _row("(C): feed-forward 4096", 90, d_ff=4096),
    "d-dropout-0.0": _row("(D): no dropout", dropout=0.0),
    "d-dropout-0.2": _row("(D): dropout 0.2", dropout=0.2),
    "d-smoothing-0.0": _row("(D): no label smoothing", training={"label_smoothing": 0.0}),
    "d-smoothing-0.2": _row("(D): label smoothing 0.2", training={"label_smoothing": 0.2}),
    "e-learned": _row("(E): learned positions", positions="learned"),
    "big": _row("big", 213, {"steps": 300_000, "average": 20}, d_model=1024, d_ff=4096, heads=16, dropout=0.3),
    "tiny": Preset("the small-data standard", TINY),
    "tiny-a-heads-1": _tiny("(A): 1 head of 128", heads=1, d_k=128, d_v=128),
    "tiny-a-heads-2": _tiny("(A): 2 heads of 64", heads=2, d_k=64, d_v=64),
    "tiny-a-heads-8": _tiny("(A): 8 heads of 16", heads=8, d_k=16, d_v=16),
    "tiny-a-heads-16": _tiny("(A): 16 heads of 8", heads=16, d_k=8, d_v=8),
    "tiny-b-dk-8": _tiny("(B): keys of 8", d_k=8, d_v=32),
    "tiny-b-dk-16": _tiny("(B): keys of 16", d_k=16, d_v=32),
    "tiny-c-layers-1": _tiny("(C): 1 layer", layers=1),
    "tiny-c-layers-3": _tiny("(C): 3 layers", layers=3),
    "tiny-c-layers-5": _tiny("(C): 5 layers", layers=5),
    "tiny-c-width-64": _tiny("(C): 64 wide", d_model=64, d_k=16, d_v=16),
    "tiny-c-width-256": _tiny("(C): 256 wide", d_model=256, d_k=64, d_v=64),
    "tiny-c-ff-128": _tiny("(C): feed-forward 128", d_ff=128),
    "tiny-c-ff-512": _tiny("(C): feed-forward 512", d_ff=512),
    "tiny-d-dropout-0.0": _tiny("(D): no dropout", dropout=0.0),
    "tiny-d-dropout-0.2": _tiny("(D): dropout 0.2", dropout=0.2),
    "tiny-d-smoothing-0.0": _tiny("(D): no label smoothing", {"label_smoothing": 0.0}),
    "tiny-d-smoothing-0.2": _tiny("(D): label smoothing 0.2", {"label_smoothing": 0.2}),
    "tiny-e-learned": _tiny("(E): learned positions", positions="learned"),
    "tiny-big": _tiny("big: twice as wide, twice the heads", d_model=256, d_ff=512, heads=8, dropout=0.3),
    "recurrent": Preset("a bidirectional GRU with additive attention", RECURRENT, kind="recurrent"),
    # ReLU, because on a CPU the tanh in GPT-2's activation takes a sixth of a training step at this size.
    "gpt-mini": _gpt("a GPT for a small text and an ordinary computer", None, 4, 128, 4, context=128, activation="relu"),
    "gpt2": _gpt("GPT-2 small", 124.4, 12, 768, 12),
    "gpt2-medium": _gpt("GPT-2 medium", 354.8, 24, 1024, 16),
    "gpt2-large": _gpt("GPT-2 large", 774.0, 36, 1280, 20),
    "gpt2-xl": _gpt("GPT-2 XL", 1557.6, 48, 1600, 25),
    "bert-tiny": _bert("Google's BERT of 2 layers", 4.4, 2, 128),
    "bert-mini": _bert("Google's BERT of 4 layers, 256 wide", 11.2, 4, 256),
    "bert-small": _bert("Google's BERT of 4 layers, 512 wide", 28.8, 4, 512),
    "bert-medium": _bert("Google's BERT of 8 layers", 41.4, 8, 512),
    "bert-base": _bert("BERT-base", 109.5, 12, 768),
    "bert-large": _bert("BERT-large", 335.1, 24, 1024),
    "vit-digits": Preset("a ViT for grey images of 8×8", DIGITS, kind="vit"),
    "vit-tiny": _vit("ViT-tiny, patches of 16", 5.7, 12, 192),
    "vit-small": _vit("ViT-small, patches of 16", 22.1, 12, 384),
    "vit-base": _vit("ViT-base, patches of 16", 86.6, 12, 768),
    "vit-large": _vit("ViT-large, patches of 16", 304.3, 24, 1024),
}


def find_preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise UsageError(f"there is no preset '{name}'{did_you_mean(name, PRESETS)}")
    return PRESETS[name]
