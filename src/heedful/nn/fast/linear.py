"""A linear map by the faster of two libraries: on AMD processors oneDNN is twice as fast in float32 as MKL, PyTorch's choice.

Both compute in true float32 and differ only by rounding. Everything that is not float32 on a CPU is left to PyTorch, and so
are calls that are being recorded (tracing, compiling, counting operations), where oneDNN's operator is not supported.
Shapes: N rows, I width in, O width out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CHOICE = "HEEDFUL_PRODUCTS"  # `mkl` or `onednn`; set by the first measurement, so that worker processes make the same choice
LEAST = 1_000_000  # multiplications from which oneDNN's larger fixed cost (10 µs) pays off
MARGIN = 1.3  # oneDNN must be this many times as fast, so that noise on a busy machine does not change the choice
TRIAL = (512, 256, 256)  # N, I and O of the product that is measured


class Linear(nn.Linear):
    """`nn.Linear` by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, I) → (…, O)"""
        return linear_map(x, self.weight, self.bias)


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, as `F.linear`: x (…, I), weight (O, I), bias (O,) → (…, O)."""
    if not fits_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        # torch's Function.apply has no annotations.
        mapped: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return mapped
    return onednn_product(x, weight, bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same without gradients; the weight may be a transposed view."""
    return onednn_product(x, weight, bias) if fits_onednn(x, weight) else F.linear(x, weight, bias)


def add_weight_gradient(total: Tensor, x: Tensor, grad: Tensor) -> None:
    """Add the gradient with respect to Wᵀ, for rows x (N, I) whose outputs have the gradient (N, O), to a total (I, O).

    The gradient is transposed because oneDNN is a third faster this way round.
    """
    if total.dtype == grad.dtype and not fits_onednn(x.t(), grad.t()):
        total.addmm_(x.t(), grad)
    else:
        total += product(x.t(), grad.t())


class _Linear(torch.autograd.Function):
    """The linear map with its gradients, all by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return onednn_product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.size(-1))  # (N, O)
        grad_x = product(grad, weight.t()) if needs_x else None
        grad_weight = product(x.reshape(-1, x.size(-1)).t(), rows.t()).t() if needs_weight else None
        return grad_x, grad_weight, rows.sum(0) if needs_bias else None


def fits_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN should compute this product: float32 on a CPU, large enough, not recorded, and oneDNN is faster here."""
    return (
        x.dtype is torch.float32
        and weight.dtype is torch.float32
        and not is_recorded()
        and x.numel() * weight.size(0) >= LEAST
        and x.device.type == "cpu"
        and weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and type(x) in PLAIN
        and type(weight) in PLAIN
        and onednn_is_faster()
    )


PLAIN = (Tensor, nn.Parameter)  # not, for example, the distributed tensors of FSDP


def is_recorded() -> bool:
    """Whether operations are not simply executed but traced, compiled, counted or transformed."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
    )


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b by oneDNN: x (…, I), weight (O, I) → (…, O)."""
    mapped: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return mapped


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN is faster on this processor: measured once, in a few milliseconds, or set by the environment variable."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if os.environ.get(CHOICE) not in ("mkl", "onednn"):
        rows, width_in, width_out = TRIAL
        x, weight = torch.ones(rows, width_in), torch.ones(width_out, width_in)
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            mkl = shortest(lambda: F.linear(x, weight))
            onednn = shortest(lambda: onednn_product(x, weight))
        os.environ[CHOICE] = "onednn" if onednn * MARGIN < mkl else "mkl"
    return os.environ[CHOICE] == "onednn"


def chosen_library() -> str:
    """`mkl` or `onednn`, whichever computes the large products of this process."""
    return "onednn" if onednn_is_faster() else "mkl"


def choose_library(name: str) -> None:
    """Use the library that an earlier process chose, so that a resumed run continues with exactly the same numbers."""
    os.environ[CHOICE] = name
    onednn_is_faster.cache_clear()


def shortest(work: Callable[[], object], times: int = 5) -> float:
    """The shortest time of several runs in seconds, not counting a first one."""
    work()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
