"""How a cost grows: fits the exponent p of cost ≈ c · size^p to measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable


def fitted_exponent(points: Iterable[tuple[float, float]]) -> float | None:
    """The slope of log cost over log size by least squares; None with fewer than two different sizes.

    >>> round(fitted_exponent([(1, 5.0), (2, 20.0), (4, 80.0)]), 6)
    2.0
    """
    logs = [(math.log(size), math.log(cost)) for size, cost in points if size > 0 and cost > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
