"""Sequential operations: the longest chain of operations in which each needs the result of the one before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def sequential_steps(layer: nn.Module, x: Tensor) -> int:
    """The longest chain of dependent operations while the layer computes its output from x (1, L, D)."""
    depths = DependencyDepths()
    # oneDNN would run a whole LSTM as one operation, which hides its steps.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), depths:
            output = layer(x)
    return depths.of(output)


class DependencyDepths(TorchDispatchMode):
    """Runs operations and notes, for every element of every tensor, how many operations in a row led to it.

    An operation's result is one deeper than the deepest element it reads. A view computes nothing. Depths are kept by
    storage, so that writing one part of a tensor does not make its other parts depend on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.depths: dict[int, Tensor] = {}  # address of a storage → the depth of each of its bytes
        self.alive: list[Tensor] = []  # so that no address is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = list(tensors_in((args, kwargs)))
        depth = 1 + max((self.of(tensor) for tensor in given), default=-1)
        result = func(*args, **(kwargs or {}))
        known = {address(tensor) for tensor in given}
        for tensor in tensors_in(result):
            if address(tensor) not in known or func._schema.is_mutable:
                self.elements(tensor).fill_(depth)
        return result

    def of(self, tensor: Tensor) -> int:
        """The depth of a tensor's deepest element."""
        return int(self.elements(tensor).max()) if tensor.numel() else 0

    def elements(self, tensor: Tensor) -> Tensor:
        """The depths of the bytes of a tensor's elements: its shape and one dimension more; writing changes them."""
        if address(tensor) not in self.depths:
            self.depths[address(tensor)] = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.int32)
            self.alive.append(tensor)
        width = tensor.element_size()
        strides = [stride * width for stride in tensor.stride()]
        return self.depths[address(tensor)].as_strided((*tensor.size(), width), (*strides, 1), tensor.storage_offset() * width)


def address(tensor: Tensor) -> int:
    """Where the storage of a tensor begins."""
    return tensor.untyped_storage().data_ptr()


def tensors_in(nested: object) -> Iterator[Tensor]:
    """Every tensor inside nested lists, tuples and dictionaries."""
    return (leaf for leaf in tree_leaves(nested) if isinstance(leaf, Tensor))
