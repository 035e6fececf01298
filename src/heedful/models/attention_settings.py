"""The settings of self-attention kinds, shared by all Transformer models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from heedful.errors import UsageError
from heedful.nn.attention.kinds import ATTENTION_KINDS, AttentionKind, AttentionSettings, build_attention
from heedful.settings import CountOrNone, Positions, setting

Few = Annotated[int, Interval(ge=1, le=1000)]
FewOrNone = Annotated[int, Interval(ge=0, le=1000)]
Seed = Annotated[int, Interval(ge=0, le=2**31)]


@dataclass(frozen=True, kw_only=True)
class AttentionFields:
    """Which keys a query of a self-attention sees. Each setting after the first names the kinds it is for."""

    attention_kind: AttentionKind = setting("full", "which tokens a token attends to; see [Long inputs](howto/long.md)")
    window: Positions = setting(128, "`window`, `longformer`, `bigbird`: how many tokens a token sees on either side of it")
    global_tokens: CountOrNone = setting(
        1, "`longformer`, `bigbird`: how many of the first tokens are global, so that they see all tokens and all tokens see them"
    )
    attention_block: Positions = setting(64, "`bigbird`: tokens of a block; window and global tokens are rounded up to blocks")
    random_blocks: FewOrNone = setting(3, "`bigbird`: random blocks that a block sees, fixed by pattern_seed")
    projected_length: Positions = setting(256, "`linformer`: the length to which keys and values are projected")
    hash_buckets: Annotated[int, Interval(ge=1, le=2**16)] = setting(
        32, "`reformer`: a token sees only tokens of its own bucket; even, or 1 for no hashing"
    )
    hash_rounds: Few = setting(2, "`reformer`: how many times tokens are hashed, each time differently")
    hash_chunk: Positions = setting(64, "`reformer`: how many tokens of its bucket a token sees on either side")
    pattern_seed: Seed = setting(1, "`bigbird`, `reformer`: seed of the random blocks and of the hashing, which never change")

    def attention(self, kind: AttentionKind | None = None, max_length: int = 0) -> AttentionSettings:
        """The settings of the self-attention in every layer; `max_length` limits the sequence, if it has a limit."""
        names = {one.name for one in dataclasses.fields(AttentionSettings)}
        given = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name in names}
        return AttentionSettings(kind=kind or self.attention_kind, max_length=max_length, **given)

    def check_attention(self) -> None:
        """Raise an error if the settings of a kind are impossible."""
        if self.hash_buckets > 1 and self.hash_buckets % 2:
            raise UsageError(f"hash_buckets must be even, or 1 for no hashing, not {self.hash_buckets}")

    def check_causal(self, kind: AttentionKind, remedy: str) -> None:
        """Raise an error if a kind has no causal form; `remedy` says what to do."""
        reason = build_attention(AttentionSettings(kind)).not_causal
        if reason:
            raise UsageError(f"attention_kind={kind} has no causal form: {reason}; {remedy}")


def causal_kinds() -> list[AttentionKind]:
    """The kinds that have a causal form."""
    return [kind for kind in ATTENTION_KINDS if not build_attention(AttentionSettings(kind)).not_causal]
