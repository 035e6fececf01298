"""The tree of a beam search, recorded while it runs: every hypothesis considered, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Fate = Literal["alive", "ended", "dropped", "best"]


@dataclass
class BeamNode:
    """A hypothesis: the one it extends, by which token, and what became of it.

    `alive` stayed in the beam, `ended` is finished, `dropped` was not good enough to stay, `best` leads to the output.
    """

    node: int  # its number
    parent: int | None  # None for a first token
    token: int
    log_probability: float
    score: float  # log-probability / length penalty
    state: Fate


@dataclass
class BeamTree:
    """The hypotheses of each step of a search, best first."""

    steps: list[list[BeamNode]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)  # the node at each place of the beam

    def grow(
        self, candidates: Sequence[tuple[int, int, float]], kept: Sequence[int], ended: Sequence[int], penalty: float
    ) -> None:
        """Record a step: each candidate's place in the beam before, its token and its log-probability, best first.

        `kept` are the numbers of the candidates that stay in the beam, by place; `ended` of those that are finished. A score is
        a log-probability divided by the `penalty`.
        """
        first = sum(map(len, self.steps))
        numbers: dict[int, int] = {}  # candidate → node
        step: list[BeamNode] = []
        for index, (place, token, total) in enumerate(candidates):
            if total == -math.inf:
                continue
            numbers[index] = first + len(step)
            parent = self.open[place] if self.open else None
            state: Fate = "ended" if index in ended else "alive" if index in kept else "dropped"
            step.append(BeamNode(numbers[index], parent, token, total, total / penalty, state))
        self.steps.append(step)
        self.open = [numbers.get(index, -1) for index in kept]

    def finish(self, output: Sequence[int], end: int, cut_off: bool) -> None:
        """Mark the path of the output; `cut_off` at its limit, a search ends every hypothesis in its beam."""
        if cut_off:
            for node in self.steps[-1] if self.steps else []:
                node.state = "ended" if node.state == "alive" else node.state
        parent: int | None = None
        for step, token in zip(self.steps, [*output, end], strict=False):
            found = next((node for node in step if node.parent == parent and node.token == token), None)
            if found is None:
                return
            found.state, parent = "best", found.node
