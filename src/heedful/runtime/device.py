"""Which device to compute on and how precisely (`auto` picks), and how much memory there is."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

import torch

from heedful.errors import UsageError

BF16_WIDTH = 128  # d_model from which bf16 is twice as fast on a CPU; at half of it the gain is only 20 to 50 %


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


def wants_bf16(precision: str, device: torch.device, width: int) -> bool:
    """Whether to multiply matrices in bf16: when asked to, or with `auto` on a CUDA device or CPU that supports it.

    On a CPU a narrow model gains little from bf16 and stays in float32.
    """
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cpu":
        return width >= BF16_WIDTH and cpu_has_bf16()
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def cpu_has_bf16() -> bool:
    """Whether the processor has bf16 instructions; with AVX-512 they were four times as fast as float32."""
    features = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(features.get(name, False) for name in ("avx512_bf16", "amx_bf16"))


def memory_of_machine() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def available_memory() -> int:
    """Bytes of memory that are free now, not counting what other processes could be forced to give up."""
    free = memory_of_machine()
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = min(free, 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, limit - used)
    return max(0, free)


def keep_few_kernels(number: int = 32) -> None:
    """Limit the cache of kernels that oneDNN compiles for every new shape of a product.

    Every batch has new shapes, so most kernels are never used again: the default of a thousand costs some 400 MB and
    saves no time. Call it before the first product.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(number))


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next tensors.

    By default it returns large blocks to the kernel at once, which then clears the same pages again and again: a tenth
    of the training time of a small model. Other C libraries are left as they are.
    """
    trim_threshold, mmap_threshold = -1, -3  # the names M_TRIM_THRESHOLD and M_MMAP_THRESHOLD have numbers only
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, (1 << 31) - 1)
