"""What is asked of the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from heedful.runtime.device import BF16_WIDTH, cpu_has_bf16, wants_bf16

PROGRAM = """
import resource, sys, torch
from heedful.runtime.device import keep_freed_memory
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


def test_bf16_is_picked_where_the_processor_has_it_and_the_model_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": True})
    assert wants_bf16("auto", cpu, BF16_WIDTH)
    assert not wants_bf16("auto", cpu, BF16_WIDTH - 1)
    assert not wants_bf16("float32", cpu, BF16_WIDTH)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    assert not wants_bf16("auto", cpu, BF16_WIDTH)
    assert wants_bf16("bf16", cpu, 1)
    assert not wants_bf16("auto", torch.device("mps"), BF16_WIDTH)


KERNELS = """
import ctypes, sys, torch
from heedful.runtime.device import keep_few_kernels
if sys.argv[1] == "few":
    keep_few_kernels()
torch.set_num_threads(1)

class Heap(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(7)] + [("used", ctypes.c_size_t), ("free", ctypes.c_size_t),
                ("top", ctypes.c_size_t)]

heap = ctypes.CDLL(None).mallinfo2
heap.restype = Heap
weight = torch.ones(256, 64, dtype=torch.bfloat16)
before = heap().used
for rows in range(1000, 1400):
    torch.ones(rows, 64, dtype=torch.bfloat16) @ weight.T
print(heap().used - before)
"""


@pytest.mark.skipif(not (sys.platform.startswith("linux") and cpu_has_bf16()), reason="glibc, and a processor with bf16")
def test_kernels_of_shapes_gone_by_do_not_fill_the_memory() -> None:
    limits = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # a training in this process has set them
    env = {name: value for name, value in os.environ.items() if name not in limits}
    held = {
        how: int(subprocess.run([sys.executable, "-c", KERNELS, how], check=True, capture_output=True, text=True, env=env).stdout)
        for how in ("few", "usual")
    }
    assert held["few"] < held["usual"] / 3
