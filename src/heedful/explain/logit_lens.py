"""The logit lens: what each layer of a model would predict if it were the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from heedful.explain.explanation import Candidate, Lens
from heedful.explain.from_trace import row_labels
from heedful.nn.trace import Stack, Trace


def lens_of(
    trace: Trace,
    stack: Stack,
    sequence: str,
    say: Callable[[Tensor], list[list[Candidate]]],
    columns: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
) -> Lens:
    """What each layer would predict: `say` gives the candidates for its hidden states (1, L, D)."""
    hidden = trace.hidden[stack]
    return Lens(stack, sequence, labels or row_labels(hidden), columns, [say(states) for states in hidden])
