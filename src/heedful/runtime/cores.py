"""How many cores there are to use; importing it does not import PyTorch."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
