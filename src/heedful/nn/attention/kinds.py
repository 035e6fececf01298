"""The table of attention kinds. A new kind is one file beside this one and one row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from heedful.nn.attention.base import Attention
from heedful.nn.attention.bigbird import BigBirdAttention
from heedful.nn.attention.full import FullAttention
from heedful.nn.attention.linformer import LinformerAttention
from heedful.nn.attention.longformer import LongformerAttention
from heedful.nn.attention.reformer import ReformerAttention
from heedful.nn.attention.window import WindowAttention

AttentionKind = Literal["full", "window", "longformer", "bigbird", "linformer", "reformer"]


@dataclass(frozen=True)
class AttentionSettings:
    """Which kind of attention, and what the kinds need. The model's settings of the same names say what each means."""

    kind: AttentionKind = "full"
    window: int = 128
    global_tokens: int = 1
    global_projections: bool = False
    attention_block: int = 64
    random_blocks: int = 3
    published_bigbird: bool = False
    projected_length: int = 256
    hash_buckets: int = 32
    hash_rounds: int = 2
    hash_chunk: int = 64
    pattern_seed: int = 1
    max_length: int = 1  # of a sequence, for kinds that have parameters for each position
    layer: int = 0  # number of the layer: random blocks and hashing differ between layers


ATTENTION_KINDS: dict[AttentionKind, Callable[[AttentionSettings], Attention]] = {
    "full": lambda s: FullAttention(),
    "window": lambda s: WindowAttention(s.window),
    "longformer": lambda s: LongformerAttention(s.window, s.global_tokens, s.global_projections),
    "bigbird": lambda s: BigBirdAttention(
        s.window, s.global_tokens, s.random_blocks, s.attention_block, s.pattern_seed, s.layer, s.published_bigbird
    ),
    "linformer": lambda s: LinformerAttention(s.projected_length, s.max_length),
    "reformer": lambda s: ReformerAttention(s.hash_buckets, s.hash_rounds, s.hash_chunk, s.pattern_seed, s.layer),
}


def build_attention(settings: AttentionSettings) -> Attention:
    """A fresh attention of the kind that the settings name."""
    return ATTENTION_KINDS[settings.kind](settings)
