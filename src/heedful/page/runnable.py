"""Whether the browser's engine can run a model, checked before it is packed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from heedful.errors import HeedfulError
from heedful.models import config_class

if TYPE_CHECKING:
    from heedful.models.registry import ModelConfig

KINDS = ("seq2seq", "recurrent", "gpt", "bert", "vit")
KNOWN = {  # settings with a closed set of values, and the values that the engine supports
    "activation": ("relu", "gelu", "gelu-tanh", "silu"),
    "norm": ("pre", "post"),
    "positions": ("sinusoidal", "learned", "linear-bias", "relative", "rotary", "none"),
    "reads": ("last", "layerwise", "mix"),
    "cell": ("gru", "lstm"),
    "pooling": ("cls", "mean", "attention"),
    "head": ("none", "pretraining", "sequence", "token"),
    "attention_kind": ("full", "window", "longformer", "bigbird", "linformer", "reformer"),
}
MOST_PARAMETERS = 150_000_000  # four bytes each, once a browser has read them
KNOWN_OF_KIND = {  # where a kind of model has other ones
    ("recurrent", "attention"): ("none", "dot", "scaled-dot", "bilinear", "additive"),
}
# Settings the engine reads, or that have no effect on what a trained model computes. Of any other, only the default is known.
READ = {
    *KNOWN, "source_vocab", "target_vocab", "vocab", "layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v",
    "dropout", "attention_dropout", "max_positions", "max_distance", "tie", "scale_embedding", "embedding_start", "context",
    "epsilon", "segments", "classes", "bidirectional", "image_size", "channels", "patch", "init", "decoder_attention_kind",
    "window", "global_tokens", "attention_block", "random_blocks", "projected_length", "hash_buckets", "hash_rounds",
    "hash_chunk", "pattern_seed",
}  # fmt: skip


def check_runnable(name: str, kind: str, config: ModelConfig, parameters: int) -> None:
    """Raise an error if a model is too large for a browser, or that names every setting of it that the engine does not know."""
    if parameters > MOST_PARAMETERS:
        raise HeedfulError(
            f"{name} has {parameters:,} weights; the page runs models of at most {MOST_PARAMETERS:,}, which take "
            f"{4 * MOST_PARAMETERS / 1e6:,.0f} MB of a browser's memory"
        )
    if kind not in KINDS:
        raise HeedfulError(f"{name} is a model of kind {kind}, which the page cannot run; it runs {', '.join(KINDS)}")
    wrong = []
    for one in dataclasses.fields(config_class(kind)):
        value = getattr(config, one.name)
        known = KNOWN_OF_KIND.get((kind, one.name)) or KNOWN.get(one.name)
        if known is not None and value not in known:
            wrong.append(f"{one.name}={value} (it knows {', '.join(known)})")
        elif known is None and one.name not in READ and value != one.default:
            wrong.append(f"{one.name}={value}")
    if wrong:
        raise HeedfulError(f"the page cannot run {name}, because its engine does not know {' and '.join(wrong)}")
