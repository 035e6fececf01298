"""The table of attention kinds. A new kind is one file beside this one and one row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from heedful.nn.attention.base import Attention
from heedful.nn.attention.full import FullAttention

AttentionKind = Literal["full"]


@dataclass(frozen=True)
class AttentionSettings:
    """Which kind of attention. What else a kind needs, such as the width of a window, is a further field here."""

    kind: AttentionKind = "full"


ATTENTION_KINDS: dict[AttentionKind, Callable[[AttentionSettings], Attention]] = {
    "full": lambda settings: FullAttention(),
}


def build_attention(settings: AttentionSettings) -> Attention:
    """A fresh attention of the kind that the settings name."""
    return ATTENTION_KINDS[settings.kind](settings)
