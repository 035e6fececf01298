"""What is asked of the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from heedful.training.device import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(1 << 23)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(min(faults() for _ in range(5)))  # the heap may still grow in the first rounds
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_freed_memory_is_used_again_without_asking_the_kernel() -> None:
    """32 MiB ten times are 81,920 pages of 4 KiB, or 160 large ones."""
    faults = {
        how: int(subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True).stdout)
        for how in ("kept", "usual")
    }
    assert faults["kept"] < faults["usual"] / 10
