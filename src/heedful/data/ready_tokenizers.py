"""Uses the tokenizers of a pre-trained model for new pairs: checks how well they fit, and extends them if asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from heedful.data.drops import Drops
from heedful.data.parallel import Pair
from heedful.data.prepare import Reporter
from heedful.text import Tokenizer
from heedful.text.extension import extend_pair

if TYPE_CHECKING:
    from heedful.recipes.settings import TokenizerSettings

PARTS = "new_tokens.json"  # the old ids of each new token
SAMPLED_TEXTS = 2000  # texts per side for checking whether a vocabulary fits
UNKNOWN = 0.002  # share of unknown tokens above which it does not fit
SMALL = 1.0  # tokens per character above which it does not fit


class PairFiles(Protocol):
    """One or two files of pairs."""

    @property
    def target(self) -> Path | None: ...  # the second file, where there are two

    @property
    def paths(self) -> list[Path]: ...

    def read(self, drops: Drops) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class SampledTexts:
    """The texts to learn a vocabulary from: those of the training pairs, or evenly spread ones if there are many."""

    training: PairFiles
    is_held_out: Callable[[Pair], bool]
    count: int  # of pairs, the synthetic ones included
    sample: int
    synthetic: PairFiles | None = None

    def of(self, *sides: int, tick: Callable[[int], None] = lambda _: None) -> Iterator[str]:
        """The texts of sources (0), targets (1), or both."""
        stride = -(-self.count // self.sample)
        files = [one.read(Drops()) for one in (self.training, self.synthetic) if one is not None]
        for number, pair in enumerate(chain(*files)):
            tick(1)
            if number % stride == 0 and not self.is_held_out(pair):
                yield from (pair[side] for side in sides)


@dataclass(frozen=True)
class ReadyTokenizers:
    """The source and the target tokenizer of a pre-trained model."""

    source: Tokenizer
    target: Tokenizer
    shared: bool  # both have the same ids
    files: tuple[Path, ...]  # they were read from

    def of(
        self, texts: SampledTexts, settings: TokenizerSettings, folder: Path, reporter: Reporter
    ) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers to train with; if they are extended, a file in `folder` describes the new tokens for the model."""
        if not settings.extend:
            for side, tokenizer in (("source", self.source), ("target", self.target)):
                problem = misfit(tokenizer, list(islice(texts.of(side == "target"), SAMPLED_TEXTS)))
                if problem:
                    remedy = "tokenizer.extend=2000 adds tokens for it"
                    reporter.say(f"vocabulary: the {side} text {problem} in that of the pretrained model; {remedy}")
            return self.source, self.target
        reporter.track("extending the vocabulary", None)
        found = extend_pair(self.source, self.target, (texts.of(0), texts.of(1)), settings.extend, self.shared)
        parts = {"source": found.source_parts, "target": found.target_parts}
        firsts = {"first_source": found.first_source, "first_target": found.first_target}
        (folder / PARTS).write_text(json.dumps({**parts, **firsts}), encoding="utf-8")
        added = len(parts["target"]) if self.shared else len(parts["source"]) + len(parts["target"])
        reporter.say(f"vocabulary: that of the pretrained model and {added:,} new tokens")
        return found.source, found.target


def misfit(tokenizer: Tokenizer, texts: list[str]) -> str:
    """Why a vocabulary does not fit texts: `has 3 % unknown tokens`; empty if it does."""
    rows = tokenizer.encode_batch(texts)
    tokens, characters = sum(map(len, rows)), sum(map(len, texts))
    unknown = sum(row.count(tokenizer.unk) for row in rows)
    if unknown > UNKNOWN * tokens:
        return f"has {unknown / tokens:.1%} unknown tokens"
    return f"takes {tokens / characters:.1f} tokens per character" if tokens > SMALL * characters else ""
