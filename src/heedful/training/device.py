"""Which device to compute on and how precisely (`auto` picks)."""

from __future__ import annotations

import ctypes
import os

import torch

from heedful.errors import UsageError


def pick_device(name: str) -> torch.device:
    """CUDA, then MPS, then CPU for `auto`; otherwise the one named. Of several GPUs, this process's own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        if name == "cuda":  # each process of a machine has its own
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device '{name}' is not available here; use auto, cpu, cuda or mps") from error
    return device


def wants_bf16(precision: str, device: torch.device) -> bool:
    """Whether to compute in bf16: when told to, or on a CUDA device that has it."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return precision == "bf16"


def keep_freed_memory() -> None:
    """Let the C library keep what tensors have freed for those that come next.

    By default glibc hands large blocks back at once, and the kernel clears the same pages again and again: a tenth of
    the time of a small model. Other C libraries are left as they are.
    """
    trim_threshold, mmap_threshold = -1, -3  # the names M_TRIM_THRESHOLD and M_MMAP_THRESHOLD have numbers only
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, (1 << 31) - 1)
